"""Finds free ports for the programs that this process starts, and makes HTTP requests to them without the proxy that
the environment sets."""

from __future__ import annotations

import atexit
import random
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from core.errors import ProcessError

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 20_000
_TRIES = 50
# The claims this process holds until it ends, by port.
_claims: dict[int, socket.socket] = {}


def free_port(preferred: int | None = None) -> int:
    """Return an unused port of 127.0.0.1. If the preferred port is free, return that port, so that a restarted program
    keeps its address. The port stays claimed until this process ends. Otherwise another caller could get the same port
    before the program listens on it, and mistake that program for its own."""
    if preferred is not None and _bindable(preferred) and (preferred in _claims or _claim(preferred)):
        return preferred
    for candidate in _candidates():
        port = _bindable(candidate)
        if port and _claim(port):
            return port
    raise ProcessError("there is no free port on 127.0.0.1.")


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str, timeout_seconds: float) -> bool:
    try:
        with DIRECT.open(url, timeout=timeout_seconds) as response:
            return bool(response.status == 200)
    except OSError:  # including responses with another status
        return False


def _candidates() -> Iterator[int]:
    """Yield ports below the range that the system uses for outgoing connections."""
    try:
        end = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        end = 0
    for _ in range(_TRIES):
        yield random.randrange(_LOWEST, end) if end > _LOWEST else 0  # noqa: S311 - not a secret


def _bindable(port: int) -> int | None:
    """Return the port if it can be bound, else None. For 0, return any free port."""
    with socket.socket() as probe:
        # Closed connections linger on a port for a while; they must not make it look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _claim(port: int) -> bool:
    """Claim a port by binding a name in the kernel's socket namespace. Only one process at a time can hold the name,
    and it does so until it ends."""
    if not sys.platform.startswith("linux"):
        return True  # there is no such namespace; two stacks started in the same second may collide and fail
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0vpm-port-{port}")
    except OSError:
        claim.close()
        return False
    atexit.register(claim.close)
    _claims[port] = claim
    return True

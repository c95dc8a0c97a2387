"""What `./vpm up` was asked for, checked before anything starts."""

from __future__ import annotations

import argparse
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_STATE = ROOT / ".vpm" / "state"


class StackError(Exception):
    """One sentence that says what stands in the way and what to do."""


@dataclass(frozen=True)
class Options:
    """The options of `vpm up`."""

    port: int
    state: Path
    ready_file: Path | None
    demo: bool
    fork_base: str | None
    fork_stock: str | None


def parse(argv: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="vpm up", add_help=False)
    parser.add_argument("--port", type=int, default=8400)
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE)
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--fork-base")
    parser.add_argument("--fork-stock")
    args = parser.parse_args(argv)
    if not 1 <= args.port <= 65535:
        parser.error(f"--port {args.port}: a port is a number from 1 to 65535")
    return Options(
        port=args.port,
        state=args.state.resolve(),
        ready_file=args.ready_file.resolve() if args.ready_file else None,
        demo=not args.no_demo,
        fork_base=args.fork_base,
        fork_stock=args.fork_stock,
    )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise StackError(f"port {port} is taken by another program; choose one with --port N.") from None


# The ports this stack has claimed, held until the process ends.
_claims: list[socket.socket] = []


def free_port(preferred: int | None = None) -> int:
    """A port nobody uses now; the preferred one if it is free, so that a restarted stack keeps its addresses.

    Between this answer and the moment a program listens there, another stack must not be given the same port: the
    second would find the first one's chain there and take it for its own. So the port stays claimed until we end.
    """
    for candidate in (preferred or 0, *[0] * 20):
        with socket.socket() as probe:
            # Our own closed connections linger on a port for a while; they do not stop us from listening on it again.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            port = int(probe.getsockname()[1])
        if _claim(port):
            return port
    raise StackError("no free port on 127.0.0.1.")


def _claim(port: int) -> bool:
    """A name in the kernel's socket namespace, which only one process can hold and which goes away with it."""
    if not sys.platform.startswith("linux"):
        return True  # no such namespace; two stacks started in the same second may then collide, and say so
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0vpm-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True

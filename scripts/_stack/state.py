"""The options and the state folder of a local stack. Only one stack at a time can use a folder."""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import VpmError
from core.paths import REPOSITORY
from scripts._local.ports import free_port

DEFAULT_STATE = REPOSITORY / ".vpm" / "state"


class StackError(VpmError):
    """The local stack cannot start."""


@dataclass(frozen=True)
class Options:
    port: int
    state: Path
    ready_file: Path | None
    demo: bool
    forks: Mapping[str, str | None]  # by chain, the node to fork or None


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
        parser.error(f"--port must be a number from 1 to 65535, not {args.port}")
    return Options(
        port=args.port,
        state=args.state.resolve(),
        ready_file=args.ready_file.resolve() if args.ready_file else None,
        demo=not args.no_demo,
        forks={"base": args.fork_base, "stock": args.fork_stock},
    )


def check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise StackError(f"port {port} is in use by another program; choose another one with --port N.") from None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read. The write is atomic, because other programs poll for the file and a
    start may be killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    temporary.replace(path)


def write_json(path: Path, what: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(what, indent=2).encode() + b"\n")


class State:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.postgres = root / "postgres"
        self.logs = root / "logs"
        self.deployments = root / "deployments"
        self.ape = root / "ape"
        self.ready = root / "ready.json"  # what `vpm up` publishes about a stack; a stack that was killed leaves it
        self.deployed = root / "deployed.json"  # addresses, wallets and keys from the deployment, for `vpm up`
        self.pools = root / "pools.json"  # the local pools and their exchange; a fork has no such file
        self.pool_feeds = root / "pools.toml"  # the request from which `deploy_pools` makes feeds
        self._remembered = root / "remembered.json"  # survives a restart: ports, each chain's origin, the cron secret

    def chain(self, name: str) -> Path:
        return self.root / "chains" / f"{name}.json"

    def deployment(self, name: str) -> Path:
        return self.deployments / f"{name}.json"

    def remembered(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._remembered.read_text()))
        except (OSError, ValueError):
            return {}

    def remember(self, **values: str) -> None:
        write_json(self._remembered, {**self.remembered(), **values})

    def port(self, of: str) -> int:
        """Return the port that this part used before, if that port is free; otherwise return a new port."""
        remembered = self.remembered().get(f"{of}_port")
        port = free_port(int(remembered) if remembered else None)
        self.remember(**{f"{of}_port": str(port)})
        return port

    def cron_secret(self) -> str:
        secret = self.remembered().get("cron_secret")
        if secret is None:
            secret = secrets.token_urlsafe(24)
            self.remember(cron_secret=secret)
        return secret


@contextlib.contextmanager
def exclusive(root: Path) -> Iterator[State]:
    """Create the folder and hold its lock. Raise StackError if another stack holds the lock."""
    state = State(root)
    try:
        for folder in (root, state.logs, state.deployments, root / "chains"):
            folder.mkdir(parents=True, exist_ok=True)
        handle = (root / "lock").open("a+")
    except OSError as error:
        raise StackError(f"cannot use the state folder {root}: {explain(error)}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise StackError(
                f"another stack (process {holder}) uses the state folder {root}; choose another folder with "
                "--state DIR."
            ) from None
        try:
            handle.seek(0)
            handle.truncate()
            handle.write(str(os.getpid()))
            handle.flush()
            os.fsync(handle.fileno())
        except OSError as error:
            raise StackError(f"cannot write to the state folder {root}: {explain(error)}") from None
        yield state


def running(root: Path) -> bool:
    try:
        with (root / "lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def explain(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full; free about 1 GB or choose another folder with --state DIR."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "it is not writable; choose another folder with --state DIR."
    return f"{error.strerror}."

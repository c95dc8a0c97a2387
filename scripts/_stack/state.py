"""The state folder of a stack. Only one stack uses a folder at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts._local.ports import free_port
from scripts._stack.options import StackError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically and readable by its owner only. Other programs poll for the file, and a start may be
    killed at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    temporary.replace(path)


def write_json(path: Path, what: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(what, indent=2).encode() + b"\n")


@dataclass(frozen=True)
class State:
    """A stack's folder.

    It has postgres/ (data), chains/ (saved chains), deployments/ (generated files), logs/, pools.json and pools.toml
    (the local pools and the request for their feeds), remembered.json (ports and the cron secret), deployed.json (see
    `deployed`) and ready.json (what a running stack publishes about itself).
    """

    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def deployments(self) -> Path:
        return self.root / "deployments"

    @property
    def ape(self) -> Path:
        return self.root / "ape"

    @property
    def ready(self) -> Path:
        """Return the path of the running stack's ready file. A stack that was killed leaves the file behind."""
        return self.root / "ready.json"

    @property
    def deployed(self) -> Path:
        """Return the path of the file in which the deployment leaves addresses, wallets and keys for `vpm up`."""
        return self.root / "deployed.json"

    @property
    def pools(self) -> Path:
        """Return the path of the file that describes the local pools and their exchange. A fork has no such file."""
        return self.root / "pools.json"

    @property
    def pool_feeds(self) -> Path:
        """Return the path of the request from which `deploy_pools` makes feeds."""
        return self.root / "pools.toml"

    def chain(self, name: str) -> Path:
        return self.root / "chains" / f"{name}.json"

    def deployment(self, name: str) -> Path:
        return self.deployments / f"{name}.json"

    # Values that must survive a restart: ports, so that addresses stay the same, and the cron secret.

    def remembered(self) -> dict[str, str]:
        try:
            return dict(json.loads((self.root / "remembered.json").read_text()))
        except (OSError, ValueError):
            return {}

    def remember(self, **values: str) -> None:
        write_json(self.root / "remembered.json", {**self.remembered(), **values})

    def port(self, of: str) -> int:
        """Return a port for a part, and remember it. This is the part's former port if that one is free, else
        another."""
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
    """Create the folder and hold its lock. If another stack holds the lock, raise StackError with that stack's process
    id."""
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
                f"another stack (process {holder}) uses the state folder {root}; choose another with --state DIR."
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
    """Return whether a stack is running on this folder."""
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

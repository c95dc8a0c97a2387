"""Environments beside the product's own, for tools and clients that pin other libraries or that nothing else needs.

Each is exactly what its lock says, installed under `.vpm/env/NAME` when it is first asked for; NAME is the lock's.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import venv
from pathlib import Path

from scripts._vpm.bootstrap import ENV, LOCKS, install_locked

__all__ = ["LOCKS", "home", "prepare"]


def home(lock: Path) -> Path:
    return ENV / lock.stem


def prepare(lock: Path) -> Path:
    """Bring the environment of a lock up to date, at once when nothing changed; returns its Python."""
    there = home(lock)
    ENV.mkdir(parents=True, exist_ok=True)
    with (ENV / f"{lock.stem}.lock").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        python, stamp = there / "bin" / "python", there / "made-from"
        made_from = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != made_from:
            shutil.rmtree(there, ignore_errors=True)
            venv.create(there, with_pip=False)  # uv and the machine's pip install into it from outside
            install_locked(str(python), lock, f"install the environment {lock.stem}")
            stamp.write_text(made_from)
        return python

"""Environments beside the product's own, for tools that pin other libraries or that nothing else needs.

Each is exactly `locks/NAME.txt`, installed under `.vpm/env/NAME` when it is first asked for.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from core.local.packages import REPOSITORY

LOCKS = REPOSITORY / "scripts" / "_vpm" / "locks"
ENVIRONMENTS = REPOSITORY / ".vpm" / "env"


class NotInstalled(Exception):
    """The failure to install an environment, in one sentence."""


def home(name: str) -> Path:
    return ENVIRONMENTS / name


def prepare(name: str) -> Path:
    """Bring the environment up to date, at once when nothing changed; returns its Python."""
    lock, there = LOCKS / f"{name}.txt", home(name)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        python, stamp = there / "bin" / "python", there / "made-from"
        made_from = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_from:
            return python
        shutil.rmtree(there, ignore_errors=True)
        _run(name, sys.executable, "-m", "venv", str(there))
        _run(name, str(python), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(lock))
        stamp.write_text(made_from)
        return python


def _run(name: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-300:]
        raise NotInstalled(f"could not install the environment {name}: {said}")

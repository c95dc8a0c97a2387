"""Environments of their own for clients that need other editions of packages than the service does."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python_of(lock: Path) -> Path:
    """The interpreter of an environment that holds exactly this lock's packages, made when it is first asked for."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    place = ROOT / ".vpm" / "env" / f"{lock.stem}-{digest}"
    python, done = place / "bin" / "python", place / "complete"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f"{place.name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            for command in (
                ["uv", "venv", "-q", "--python", "3.11", str(place)],
                ["uv", "pip", "install", "-q", "--require-hashes", "--python", str(python), "-r", str(lock)],
            ):
                subprocess.run(command, check=True, timeout=300)
            done.touch()
    return python

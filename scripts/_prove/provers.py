"""The environment that the provers live in: Halmos and the solvers, exactly `locks/prove.txt`.

It is one of its own because Halmos pins versions of libraries that the product uses in others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

from core.local.packages import REPOSITORY, foundry_binary

LOCK = REPOSITORY / "scripts" / "_vpm" / "locks" / "prove.txt"
HOME = REPOSITORY / ".vpm" / "env" / "prove"
BUILD = REPOSITORY / ".vpm" / "build" / "prove"


class NoProvers(Exception):
    """The failure to install the provers, in one sentence."""


def prepare() -> None:
    """Bring the provers up to date; at once when nothing changed."""
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with (HOME.parent / "prove.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, made_from = HOME / "made-from", hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_from:
            return
        shutil.rmtree(HOME, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(HOME))
        _run(str(HOME / "bin" / "python"), "-m", "pip", "install", "-q", "--require-hashes", "-r", str(LOCK))
        stamp.write_text(made_from)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoProvers(f"could not install the provers: {(done.stderr.strip() or done.stdout.strip())[-300:]}")


def environment() -> dict[str, str]:
    """What a prover runs in: its own programs and ours, and a home in which it may keep its caches."""
    home = BUILD / "home"
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    path = os.pathsep.join([str(HOME / "bin"), str(foundry_binary("forge").parent), os.environ.get("PATH", os.defpath)])
    return {**inherited, "PATH": path, "HOME": str(home), "FOUNDRY_PROFILE": "prove", "NO_COLOR": "1"}

"""The environment that the provers live in: Halmos and the solvers, exactly `locks/prove.txt`.

It is one of its own because Halmos pins versions of libraries that the product uses in others.
"""

from __future__ import annotations

import os

from core.paths import REPOSITORY
from scripts._local.packages import foundry_binary
from scripts._vpm import side

LOCK = side.LOCKS / "prove.txt"
BUILD = REPOSITORY / ".vpm" / "build" / "prove"


def prepare() -> None:
    """Bring the provers up to date; at once when nothing changed."""
    side.prepare(LOCK)


def environment() -> dict[str, str]:
    """What a prover runs in: its own programs and ours, and a home in which it may keep its caches."""
    home = BUILD / "home"
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    own = str(side.home(LOCK) / "bin")
    path = os.pathsep.join([own, str(foundry_binary("forge").parent), os.environ.get("PATH", os.defpath)])
    return {**inherited, "PATH": path, "HOME": str(home), "FOUNDRY_PROFILE": "prove", "NO_COLOR": "1"}

"""Has the plots drawn, in the environment that has matplotlib."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from core.paths import REPOSITORY
from scripts._study.claims import Figures
from scripts._study.measured import DATA, digest
from scripts._vpm import side

FOLDER: Final = REPOSITORY / "docs" / "pictures"
DRAWING: Final = Path(__file__).with_name("drawing.py")


def draw(figures: Figures) -> None:
    """From the figures as they are kept."""
    python = side.prepare(side.LOCKS / "study.txt")
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    home = REPOSITORY / ".vpm" / "build" / "study"
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [str(python), str(DRAWING), str(DATA), str(FOLDER), digest(figures)],
        env={**inherited, "MPLCONFIGDIR": str(home), "SOURCE_DATE_EPOCH": "0"},
        check=True,
    )

"""Removes the data of an embedded PostgreSQL."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts._local.postgres import MARK, private_path


def forget_postgres(state_dir: Path) -> None:
    state_dir = state_dir.absolute()
    if (state_dir / MARK).exists():
        shutil.rmtree(private_path(state_dir), ignore_errors=True)
        (state_dir / MARK).unlink()
    shutil.rmtree(state_dir / "data", ignore_errors=True)
    (state_dir / "password").unlink(missing_ok=True)

"""`./vpm bench`: what the product costs and how fast it is, each figure against a baseline of the same run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

NAMES = ("index", "relay", "api", "scale", "growth", "trade", "events", "cup", "pages", "start", "provider", "gas")
LONG = ("api", "growth")
"""Those of which `--long` runs more, for many minutes."""


def run(name: str, json_path: Path | None, *, long: bool = False) -> int:
    """None is imported before it is run: a process that measures its own memory would count what the others need."""
    bench = import_module(f"scripts._bench.{name}")
    measured: int = bench.main(json_path, **(bench.LONG if long else {}))
    return measured

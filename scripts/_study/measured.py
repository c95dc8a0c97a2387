"""The figures of the study: measured here, kept in docs/fairness.json, and read from there by page and plots."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from core.paths import REPOSITORY
from scripts._study import attacks, collusion, returns, venue
from scripts._study.claims import Figures

DATA: Final = REPOSITORY / "docs" / "fairness.json"


@dataclass(frozen=True, slots=True)
class Effort:
    """How many markets are played for each part, and how fine the grid is on which attacks are solved."""

    crowd: int
    roles: int
    sweep: int
    collusion: int
    steps: int
    cells: int


WHOLE: Final = Effort(crowd=4_000, roles=1_500, sweep=600, collusion=600, steps=200, cells=1_200)
QUICK: Final = Effort(crowd=8, roles=2, sweep=1, collusion=2, steps=30, cells=120)
"""Seconds. Its figures are kept as well, so that a test finds out whether the code still gives them."""


def measure(effort: Effort, said: Callable[[str], None] = lambda _: None) -> Figures:
    figures: Figures = {"markets": {"crowd": effort.crowd, "roles": effort.roles, "sweep": effort.sweep}}
    figures["markets"]["collusion"] = effort.collusion
    parts: dict[str, Callable[[], Any]] = {
        "crowds": lambda: returns.crowds(effort.crowd),
        "roles": lambda: returns.roles(effort.roles),
        "sweep": lambda: returns.sweep(effort.sweep),
        "collusion": lambda: collusion.measure(effort.collusion),
        "attacks": lambda: attacks.measure(effort.steps, effort.cells),
    }
    for name, part in parts.items():
        said(name)
        figures[name] = part()
    figures["venue"] = venue.income(figures)
    return figures


def kept() -> dict[str, Figures]:
    """Of both efforts, `whole` and `quick`."""
    return dict(json.loads(DATA.read_text()))


def keep(figures: dict[str, Figures]) -> None:
    """A line for each table, so that a change of one shows as that."""
    efforts = []
    for effort, parts in figures.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(part, sort_keys=True)}" for name, part in parts.items()]
        efforts.append(f"{json.dumps(effort)}: {{\n" + ",\n".join(lines) + "\n }")
    DATA.write_text("{" + ",\n ".join(efforts) + "}\n")


def digest(figures: Figures) -> str:
    """What a plot carries, to tell which figures it shows."""
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]

"""Writes docs/fairness.md: the text of `page.md.jinja` with the figures that were measured."""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.paths import REPOSITORY
from scripts._study.claims import Figures

PAGE: Final = REPOSITORY / "docs" / "fairness.md"
TEMPLATE: Final = "page.md.jinja"


def part(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}%"


def around(summary: dict[str, float], digits: int = 1) -> str:
    """A mean and half its 95% interval, in percent without its sign."""
    mean = round(100 * summary["mean"], digits) + 0.0  # no minus before a zero
    return f"{mean:+.{digits}f} ± {100 * summary['pm']:.{digits}f}"


def usd(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def rendered(figures: Figures) -> str:
    made = Environment(  # noqa: S701 - Markdown of our own
        loader=FileSystemLoader(REPOSITORY / "scripts" / "_study"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {"part": part, "around": around, "usd": usd}
    made.filters.update(filters)
    return made.get_template(TEMPLATE).render(f=figures)


def write(figures: Figures) -> None:
    PAGE.write_text(rendered(figures))

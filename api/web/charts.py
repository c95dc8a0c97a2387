"""The data of charts, each with one sentence that sums it up. A script draws them (bundles/charts.ts); without scripts,
the page shows the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

import orjson
from markupsafe import Markup

# Unix seconds, value.
Point = tuple[int, int]
# A class of the stylesheet.
Tone = Literal["main", "up", "down", "quiet"]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line through points. `step`: whether the line keeps its value until the next point, as a price reading does."""

    points: Sequence[Point]
    tone: Tone = "main"
    step: bool = True
    fill: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line."""

    at: int
    label: str


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line."""

    value: int
    label: str
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True)
class Unit:
    """A format for values. `one`: the value that is displayed as 1. If `after` starts with a space, the axis omits it
    and the chart's heading must name the unit."""

    one: int
    decimals: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with one scale. `floor` and `ceiling` may fix the ends of the scale."""

    title: str
    summary: str
    lines: Sequence[ChartLine]
    start: int
    end: int
    unit: Unit
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()
    floor: int | None = None
    ceiling: int | None = None

    def draw(self, name: str) -> Markup:
        """Return the summary with the data for the script. `name` must be unique on the page."""
        low, high = self._bounds()
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        lines = [each for each in self.lines if each.points]
        figures = {**own, **asdict(self.unit), "lines": lines, "name": name, "low": low, "high": high}
        return Markup('<p class="chart" data-chart="{}">{}</p>').format(orjson.dumps(figures).decode(), self.summary)

    def _bounds(self) -> tuple[int, int]:
        values = [value for line in self.lines for _, value in line.points]
        values += [each.value for each in self.levels]
        values += [each for each in (self.floor, self.ceiling) if each is not None]
        low, high = (min(values), max(values)) if values else (0, 1)
        margin = max(1, (high - low) // 8)
        low -= 0 if self.floor is not None else margin
        high += 0 if self.ceiling is not None else margin
        return low, max(high, low + 1)

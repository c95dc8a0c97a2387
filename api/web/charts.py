"""Charts: the figures that a page carries, and one sentence that says what they show.

The page's script draws them (bundles/charts.ts); without a script the sentence stands in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import orjson
from markupsafe import Markup

# Unix seconds, value.
Point = tuple[int, int]
# A class of the stylesheet.
Tone = Literal["main", "up", "down", "quiet"]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """A line through points. `step`: holds its value until the next point, as a reading in effect does. `label`: its
    name where there are several."""

    points: Sequence[Point]
    tone: Tone = "main"
    step: bool = True
    fill: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a time, named."""

    at: int
    label: str


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line at a value, named at the right edge."""

    value: int
    label: str
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True)
class Unit:
    """A format for values: `one` of them make one of the unit shown, with so many decimals. The axis leaves out an
    `after` that is a separate word, having no room for it on every line: the chart's heading names it."""

    one: int
    decimals: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines, marks and levels on one scale. `said`: what they show, in one sentence. `floor` and `ceiling`: the ends of
    the scale, where they are given."""

    title: str
    said: str
    lines: Sequence[ChartLine]
    start: int
    end: int
    unit: Unit
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()
    floor: int | None = None
    ceiling: int | None = None

    def draw(self, name: str) -> Markup:
        """Return the sentence, with what the script draws from. `name` is unique in the page."""
        low, high = self._bounds()
        figures = {
            "name": name,
            "title": self.title,
            "said": self.said,
            "start": self.start,
            "end": self.end,
            "low": low,
            "high": high,
            "lines": [{**asdict(each), "points": list(each.points)} for each in self.lines if each.points],
            "levels": [asdict(each) for each in self.levels],
            "marks": [asdict(each) for each in self.marks],
            **asdict(self.unit),
        }
        return Markup('<p class="chart" data-chart="{}">{}</p>').format(orjson.dumps(figures).decode(), self.said)

    def _bounds(self) -> tuple[int, int]:
        """Return the least and the greatest value of the scale."""
        values = [value for line in self.lines for _, value in line.points]
        values += [each.value for each in self.levels]
        values += [each for each in (self.floor, self.ceiling) if each is not None]
        low, high = (min(values), max(values)) if values else (0, 1)
        margin = max(1, (high - low) // 8)
        low -= 0 if self.floor is not None else margin
        high += 0 if self.ceiling is not None else margin
        return low, max(high, low + 1)

"""Charts as SVG, drawn on the server: they need no script, shift nothing, and say in words what they show.

Each carries its figures, from which a page with a script draws one that can be read off (bundles/charts.ts).

Coordinates are floats of the drawing only; no figure shown as text passes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import orjson
from markupsafe import Markup

from core.iso import calendar

WIDTH, HEIGHT = 420, 180
LEFT, RIGHT, TOP, BOTTOM = 4, 106, 12, 26
LABEL_HEIGHT = 16

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
    """A vertical line at a time, named; `timed`: its label tells the time too."""

    at: int
    label: str
    timed: bool = True


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line at a value, named at the right edge."""

    value: int
    label: str
    tone: Tone = "quiet"


@dataclass(frozen=True, slots=True)
class Unit:
    """How values are told: `one` of them are one of what is shown, with so many decimals. An `after` that is a word of
    its own is left out at the axis, which has no room for it on every line: what stands above the chart names it."""

    one: int
    decimals: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines, marks and levels on one scale. `said`: one sentence for whoever cannot see it. `floor`: the lowest value
    the scale must show. Without a `unit` it is a drawing alone, and carries no figures."""

    title: str
    said: str
    lines: Sequence[ChartLine]
    start: int
    end: int
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()
    floor: int | None = None
    ceiling: int | None = None
    unit: Unit | None = None

    def draw(self, name: str) -> Markup:
        """`name` makes the ids unique in the page."""
        low, high = self._bounds()
        scale = _Scale(self.start, max(self.end, self.start + 1), low, high)
        parts = [
            Markup('<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM
            )
        ]
        parts += [_mark(each, scale) for each in self.marks]
        parts += [_rule(each, scale) for each in self.levels]
        parts += [_line(each, scale) for each in self.lines]
        parts += _labels(self.levels, scale)
        return Markup(
            '<svg class="chart" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
            'aria-labelledby="{n}-t {n}-d"{figures}>'
            '<title id="{n}-t">{title}</title><desc id="{n}-d">{said}</desc>{parts}</svg>'
        ).format(
            w=WIDTH, h=HEIGHT, n=name, title=self.title, said=self.said, parts=Markup("").join(parts),
            figures=self._figures(name, low, high),
        )  # fmt: skip

    def _bounds(self) -> tuple[int, int]:
        """The least and the greatest value of the scale."""
        values = [value for line in self.lines for _, value in line.points]
        values += [each.value for each in self.levels]
        values += [each for each in (self.floor, self.ceiling) if each is not None]
        low, high = (min(values), max(values)) if values else (0, 1)
        margin = 0 if self.floor is not None and self.ceiling is not None else max(1, (high - low) // 8)
        low -= 0 if self.floor is not None else margin
        high += 0 if self.ceiling is not None else margin
        return low, max(high, low + 1)

    def _figures(self, name: str, low: int, high: int) -> Markup:
        """What the script draws from: the names are those of its `Figures`."""
        if self.unit is None:
            return Markup("")
        lines = [{**asdict(each), "points": list(each.points)} for each in self.lines if each.points]
        levels, marks = ([asdict(each) for each in some] for some in (self.levels, self.marks))
        frame = {"name": name, "title": self.title, "said": self.said, "start": self.start, "end": self.end}
        drawn = {"low": low, "high": high, "lines": lines, "levels": levels, "marks": marks}
        figures = orjson.dumps({**frame, **drawn, **asdict(self.unit)}).decode()
        return Markup(' data-chart="{}"').format(figures)


@dataclass(frozen=True, slots=True)
class _Scale:
    start: int
    end: int
    low: int
    high: int

    def x(self, at: int) -> float:
        inside = min(max(at, self.start), self.end)
        return LEFT + (inside - self.start) / (self.end - self.start) * (WIDTH - LEFT - RIGHT)

    def y(self, value: int) -> float:
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - BOTTOM - TOP)


def _line(line: ChartLine, scale: _Scale) -> Markup:
    if not line.points:
        return Markup("")
    path: list[str] = []
    for number, (at, value) in enumerate(line.points):
        x, y = f"{scale.x(at):.1f}", f"{scale.y(value):.1f}"
        if number == 0:
            path.append(f"M{x} {y}")
        else:
            path.append(f"H{x}V{y}" if line.step else f"L{x} {y}")
    drawn = "".join(path)
    last_x, last_y = scale.x(line.points[-1][0]), scale.y(line.points[-1][1])
    shape = Markup('<path class="line {}" d="{}"/><circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="2.4"/>').format(
        line.tone, drawn, line.tone, last_x, last_y
    )
    if not line.fill:
        return shape
    base = f"{HEIGHT - BOTTOM:.1f}"
    area = Markup('<path class="area {}" d="{}V{}H{:.1f}Z"/>').format(
        line.tone, drawn, base, scale.x(line.points[0][0])
    )
    return area + shape


def _mark(mark: Mark, scale: _Scale) -> Markup:
    x = scale.x(mark.at)
    late = x > (WIDTH - RIGHT) / 2
    return Markup(
        '<line class="mark" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
        '<text class="label" x="{tx:.1f}" y="{ty}" text-anchor="{anchor}">{label}</text>'
    ).format(
        x=x,
        top=TOP - 6,
        bottom=HEIGHT - BOTTOM,
        tx=x if not late else min(x, WIDTH - RIGHT),
        ty=HEIGHT - 8,
        anchor="end" if late else "start",
        label=f"{mark.label} {calendar(mark.at):%H:%M}" if mark.timed else mark.label,
    )


def _rule(level: Level, scale: _Scale) -> Markup:
    return Markup('<line class="level {}" x1="{}" y1="{y:.1f}" x2="{}" y2="{y:.1f}"/>').format(
        level.tone, LEFT, WIDTH - RIGHT, y=scale.y(level.value)
    )


def _labels(levels: Sequence[Level], scale: _Scale) -> list[Markup]:
    """Names at the right edge, moved apart where they would touch."""
    made: list[Markup] = []
    above = float(TOP)
    for level in sorted(levels, key=lambda each: -each.value):
        y = max(scale.y(level.value), above)
        above = y + LABEL_HEIGHT
        made.append(
            Markup('<text class="label {}" x="{}" y="{:.1f}">{}</text>').format(
                level.tone, WIDTH - RIGHT + 8, y + 4, level.label
            )
        )
    return made

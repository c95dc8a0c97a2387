"""How a market's odds moved, in a line small enough for a card. It needs no script, and says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from markupsafe import Markup

from api.web.figures import percent

WIDTH, HEIGHT, MARGIN = 240, 32, 3
WHOLE = 10_000
# Ten points: a small move does not look like a large one.
MIN_SPAN = 1_000


Move = Literal["batch", "bet"]


def sparkline(odds: Sequence[int], label: str, move: Move) -> Markup:
    """odds: of the side called `label`, in hundredths of a percent, oldest first: before the first move and after each.
    The same size whatever is in it, so that nothing shifts when the first bet comes."""
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, _said(odds, label, move), _drawn(odds))


def _said(odds: Sequence[int], label: str, move: Move) -> str:
    if len(odds) < 2:
        return f"{label}: no bets yet."
    count = len(odds) - 1
    after = f"the last {move}" if count == 1 else f"the last {count} {'batches' if move == 'batch' else 'bets'}"
    return f"{label} over {after}: from {percent(odds[0], WHOLE)} to {percent(odds[-1], WHOLE)}."


def _drawn(odds: Sequence[int]) -> Markup:
    if len(odds) < 2:
        middle = HEIGHT / 2
        return Markup('<line class="flat" x1="0" y1="{0}" x2="{1}" y2="{0}"/>').format(middle, WIDTH)
    low, high = min(odds), max(odds)
    centre, span = (low + high) / 2, max(high - low, MIN_SPAN)

    def y(value: int) -> str:
        return f"{HEIGHT / 2 - (value - centre) / span * (HEIGHT - 2 * MARGIN):.1f}"

    step = WIDTH / len(odds)  # the last value has its length too
    path = "".join(f"H{at * step:.1f}V{y(each)}" if at else f"M0 {y(each)}" for at, each in enumerate(odds))
    path += f"H{WIDTH:.1f}"
    return Markup('<path class="area" d="{0}V{1}H0Z"/><path class="line" d="{0}"/>').format(path, HEIGHT)

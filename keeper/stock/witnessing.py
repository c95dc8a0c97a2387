"""When the resolver is to remember what a stock says: into a pause, out of it, and across a strike or bell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

REPEAT_SECONDS: Final = 20 * 60
"""Witnesses over an hour apart have not seen one pause, so a lasting one is witnessed three times an hour."""


@dataclass(frozen=True, slots=True)
class StockState:
    """What a stock says now, and what the resolver remembers of it. `paused` also when it does not say; `multiplier`
    is None when it cannot be read; `last_pause` is the time of the last witness of a pause, 0 where there is none."""

    paused: bool
    multiplier: int | None
    known_multiplier: int
    last_pause: int
    is_over: bool


def why_witness(state: StockState, moments: Sequence[int], now: int) -> str | None:
    """Return why the resolver must be called now, or None. `moments`: strikes and bells of unsettled markets."""
    if state.paused:
        if not state.last_pause or state.is_over:
            return "its oracle is paused"
        if now - state.last_pause >= REPEAT_SECONDS:
            return "its oracle is still paused"
        if any(state.last_pause < moment <= now for moment in moments):
            return "its oracle is paused over a strike or a bell"
    elif state.last_pause and not state.is_over:
        return "its oracle runs again"
    if state.multiplier is not None and state.multiplier != state.known_multiplier:
        return f"its multiplier is {state.multiplier}"
    return None

"""The pool feed's rule for the reading that counts at a moment, as in the contract."""

from __future__ import annotations

from collections.abc import Mapping


class NotRecordedYet(LookupError):
    """The refusal to name a reading that can still be recorded: no older one stands in for it."""

    def __init__(self, grid_time: int) -> None:
        super().__init__(f"the reading of {grid_time} is not recorded yet, and its pools still have it")
        self.grid_time = grid_time


def reading_at(
    step: int, recorded: Mapping[int, int], oldest_available: int, time: int, max_age: int
) -> tuple[int, int] | None:
    """Return the grid time that counts at a past moment, and its recorded answer; None if there is none."""
    newest = time - time % step
    for grid_time in range(newest, max(time - max_age, step) - 1, -step):
        if grid_time in recorded:
            return grid_time, recorded[grid_time]
        if grid_time == newest and newest >= oldest_available:
            raise NotRecordedYet(newest)
    return None

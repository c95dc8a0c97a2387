"""How often something may be done."""

from __future__ import annotations

import pytest

from api.pace import Pace


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def waits(pace: Pace, clock: Clock, times: int) -> list[float]:
    found = []
    for _ in range(times):
        found.append(pace.pause())
        clock.now += found[-1]
    return found


def test_a_few_at_once_and_then_one_in_so_many_seconds() -> None:
    clock = Clock()
    pace = Pace(0.5, 4, clock)
    assert waits(pace, clock, 7) == pytest.approx([0, 0, 0, 0.5, 0.5, 0.5, 0.5])


def test_a_quiet_time_earns_no_more_than_that() -> None:
    clock = Clock()
    pace = Pace(0.5, 4, clock)
    waits(pace, clock, 10)
    clock.now += 3_600
    assert waits(pace, clock, 5) == pytest.approx([0, 0, 0, 0.5, 0.5])

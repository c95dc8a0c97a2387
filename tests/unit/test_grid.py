"""Which readings of a pool feed markets need, and which are still to be recorded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.contracts.statuses import MarketKind
from core.feeds.grid import MAX_RING, Needs, batches, grid_time, missing, next_grid_time, ring_for

NOW = 1_800_000_000
MINUTE = 60


def needs(kind: MarketKind, *, early: bool = False, early_from: int = 0, start: int = 0, end: int = NOW - 30) -> Needs:
    market = SimpleNamespace(kind=kind, early_resolvable=early, early_from=early_from, start_at=start, ends_at=end)
    return Needs.from_market(market)


def due(*every: Needs, recorded: set[int] | None = None, oldest: int = 0, now: int = NOW) -> list[int]:
    return missing(every, recorded or set(), MINUTE, oldest, now)


def test_a_threshold_and_a_range_need_the_reading_at_their_end() -> None:
    for kind in (MarketKind.THRESHOLD, MarketKind.RANGE):
        assert due(needs(kind)) == [NOW - 60]
        assert due(needs(kind, end=NOW - 60)) == [NOW - 60]
        assert due(needs(kind, end=NOW - 61)) == [NOW - 120]


def test_a_direction_needs_its_start_too() -> None:
    assert due(needs(MarketKind.DIRECTION, start=NOW - 3_590)) == [NOW - 3_600, NOW - 60]


def test_nothing_is_due_before_its_second_is_over() -> None:
    assert due(needs(MarketKind.RANGE, end=NOW)) == []
    assert due(needs(MarketKind.RANGE, end=NOW), now=NOW + 1) == [NOW]
    early = needs(MarketKind.THRESHOLD, early=True, early_from=NOW - 120, end=NOW + 3_600)
    assert due(early) == [NOW - 120, NOW - 60]
    assert due(early, now=NOW + 1) == [NOW - 120, NOW - 60, NOW]


def test_an_early_market_needs_every_reading_of_its_interval_and_none_before() -> None:
    early = needs(MarketKind.THRESHOLD, early=True, early_from=NOW - 301, end=NOW - 119)
    assert due(early) == [NOW - 300, NOW - 240, NOW - 180, NOW - 120]
    late = needs(MarketKind.THRESHOLD, early=True, early_from=NOW - 299, end=NOW - 119)
    assert due(late) == [NOW - 240, NOW - 180, NOW - 120]


def test_the_end_of_an_early_market_may_lie_before_its_first_grid_time() -> None:
    """Nothing in the interval can be recorded, and yet something has to decide."""
    assert due(needs(MarketKind.THRESHOLD, early=True, early_from=NOW - 59, end=NOW - 10)) == [NOW - 60]


def test_what_is_recorded_or_forgotten_is_not_due() -> None:
    both = needs(MarketKind.DIRECTION, start=NOW - 3_600)
    assert due(both, recorded={NOW - 60}) == [NOW - 3_600]
    assert due(both, oldest=NOW - 3_599) == [NOW - 60]
    early = needs(MarketKind.THRESHOLD, early=True, early_from=NOW - 86_400 * 90, end=NOW - 30)
    assert due(early, oldest=NOW - 120) == [NOW - 120, NOW - 60]


@given(
    st.lists(
        st.builds(
            Needs,
            st.lists(st.integers(NOW - 5_000, NOW + 500), max_size=2).map(tuple),
            st.none() | st.tuples(st.integers(NOW - 5_000, NOW), st.integers(NOW - 5_000, NOW + 500)),
        ),
        max_size=4,
    ),
    st.integers(1, 90),
    st.integers(NOW - 6_000, NOW),
)
def test_missing_is_what_a_look_at_every_second_finds(every: list[Needs], step: int, oldest: int) -> None:
    found = missing(every, set(), step, oldest, NOW)
    wanted = {
        at
        for at in range(next_grid_time(oldest, step), NOW, step)
        for need in every
        if any(at <= moment < at + step for moment in need.moments)
        or (need.interval is not None and need.interval[0] <= at <= need.interval[1])
    }
    assert found == sorted(wanted)
    assert missing(every, wanted, step, oldest, NOW) == []


def test_batches_take_the_oldest_first() -> None:
    assert batches(list(range(7)), 3, 2) == [(0, 1, 2), (3, 4, 5)]
    assert batches(list(range(4)), 3, 9) == [(0, 1, 2), (3,)]
    assert batches([], 3, 9) == []


@given(st.integers(0, 2**40), st.integers(1, 10_000))
def test_grid_times_surround_a_moment(moment: int, step: int) -> None:
    low, high = grid_time(moment, step), next_grid_time(moment, step)
    assert low % step == high % step == 0
    assert low <= moment <= high < low + 2 * step
    assert (low == high) == (moment % step == 0)


@pytest.mark.parametrize(("outage", "room"), [(0, 1_861), (43_200, 45_061), (63_674, MAX_RING), (63_675, MAX_RING)])
def test_a_ring_outlasts_an_outage_as_far_as_rings_go(outage: int, room: int) -> None:
    assert ring_for(outage, 1_800, MINUTE) == room

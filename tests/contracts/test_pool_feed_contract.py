"""The pool feed against its mirror and against the brute force, on random histories of real pools. forge plays the
histories (swaps of every size, there and back, liquidity that comes and goes, growing rings, halts) on Uniswap's
published bytecode and logs what the feed recorded. `VPM_TEST_HISTORIES` overrides how many (150), `VPM_TEST_SEED` which
ones."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import Counter

import pytest

from core.contracts.statuses import Quality
from tests.contracts.pool_feed_replay import Case, Step, play
from tests.support.pool_readings import NotRecordedYet, measure, reading_at

HISTORIES = int(os.environ.get("VPM_TEST_HISTORIES", "150"))
SEED = int(os.environ.get("VPM_TEST_SEED", "17"))
BASIS_POINT = 1e-4  # of log price


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return play(HISTORIES, SEED)


@pytest.mark.timeout(1200)
@pytest.mark.thorough
def test_the_feed_equals_the_mirror_to_the_unit(cases: list[Case]) -> None:
    """The mirror knows the pools' states and computes every observation itself, as a reader of swap logs would."""
    seen: Counter[Quality] = Counter()
    for case in cases:
        pools = [case.pool(which) for which in range(len(case.terms.sources))]
        for each in case.readings:
            reading = measure(case.terms, pools, each.time)
            assert reading is not None, "the mirror forgets nothing"
            measures = tuple(
                (each.start_cumulative, each.end_cumulative, each.liquidity(case.terms.window), each.quiet)
                for each in reading.windows
            )
            assert (reading.quality, reading.answer, measures) == (each.quality, each.answer, each.measures)
            seen[each.quality] += 1
    print(dict(seen))
    assert all(seen[quality] >= HISTORIES // 10 for quality in (Quality.GOOD, Quality.THIN)), seen


@pytest.mark.timeout(1200)
@pytest.mark.thorough
def test_the_feed_answers_for_a_moment_as_the_mirror_does(cases: list[Case]) -> None:
    seen: Counter[str] = Counter()
    for case in cases:
        step = case.terms.step
        for asked in case.asked:
            recorded = {each.time: each.answer for each in case.readings[: asked.recorded]}
            try:
                found = reading_at(step, recorded, asked.oldest_available, asked.time, asked.max_age)
                waits = None
            except NotRecordedYet as error:
                found, waits = None, error.grid_time
            assert waits == (asked.time - asked.time % step if asked.waits else None)
            if asked.waits:
                seen["waits"] += 1
                continue
            assert (found or (0, 0)) == (asked.grid_time, asked.answer)
            assert asked.round == asked.grid_time // step
            seen["none" if found is None else "older" if asked.time - found[0] >= step else "its own"] += 1
    print(dict(seen))
    assert len(seen) == 4
    assert min(seen.values()) > HISTORIES // 10


@pytest.mark.timeout(1200)
@pytest.mark.thorough
def test_the_feed_is_within_a_basis_point_of_the_mean_log_price(cases: list[Case]) -> None:
    worst = 0.0
    for case in cases:
        for each in case.readings:
            if each.quality is Quality.GOOD and each.answer > 10**6:
                worst = max(worst, abs(math.log(each.answer) - brute_force(case, each.time)))
    print(f"at most {worst / BASIS_POINT:.4f} basis points")
    assert 0 < worst < BASIS_POINT


def brute_force(case: Case, time: int) -> float:
    """Return the logarithm of the market cap, from the pools' prices second by second."""
    terms = case.terms
    mean = 0.0
    for which, source in enumerate(terms.sources):
        steps = case.of_pool(which)
        total = sum(log_price(steps, second) for second in range(time - terms.window, time))
        mean += (total if source.base_is_token0 else -total) / terms.window
    return mean + math.log(terms.supply * 10 ** (8 - terms.quote_decimals))


def log_price(steps: list[Step], second: int) -> float:
    """Return the pool's log price after the last block of that second."""
    last = steps[bisect_right(steps, second, key=lambda step: step.time) - 1]
    return 2 * (math.log(last.sqrt_price) - 96 * math.log(2))

"""The pool feed's arithmetic, against decimals of sixty digits."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import pytest

from core.agent.fixed import WAD
from core.contracts.statuses import Quality
from scripts._verify.pools import MAX_ANSWER, PoolFeedTerms, SourceTerms, exp_wad, market_cap
from tests.support.pool_readings import NotRecordedYet, Observation, PoolState, measure, reading_at

ONE = PoolFeedTerms((SourceTerms(base_is_token0=True, reference_liquidity=10**17),), 10**24, 6, 1_800, 60)
PRECISION = Decimal("1e-16")


def test_the_market_cap_is_exact_to_sixteen_digits() -> None:
    rng = random.Random(17)
    with localcontext(prec=60):
        for _ in range(2_000):
            ticks = rng.randint(-400_000, -100_000) * 1_800 + rng.randint(0, 1_799)
            mean = Decimal(ticks) / 1_800 + Decimal("0.5")
            exact = (mean * Decimal("1.0001").ln()).exp() * 10**24 * 100
            answer = market_cap(ONE, [ticks])
            assert answer is not None
            assert exact * (1 - PRECISION) - 1 <= answer <= exact * (1 + PRECISION)


def test_exp_is_e_to_the_power_of() -> None:
    rng = random.Random(18)
    with localcontext(prec=60):
        for _ in range(2_000):
            x = rng.randint(-40 * WAD, 135 * WAD)
            exact = (Decimal(x) / WAD).exp() * WAD
            assert abs(exp_wad(x) - exact) <= exact * PRECISION + 1
    assert exp_wad(-42 * WAD) == 0
    with pytest.raises(ValueError, match=r"less than 135\.3e18"):
        exp_wad(136 * WAD)


def test_what_does_not_fit_is_out_of_range() -> None:
    assert market_cap(ONE, [-900_000 * 1_800]) is None
    assert market_cap(ONE, [400_000 * 1_800]) is None
    largest = max(answer for tick in range(60_000, 70_000, 50) if (answer := market_cap(ONE, [tick * 1_800])))
    assert MAX_ANSWER * 0.99 < largest <= MAX_ANSWER


def pool(liquidity: int) -> PoolState:
    start = Observation(10_000, 0, 0)
    return PoolState([start, start.next(13_000, -276_324, liquidity)], -276_300, liquidity)


def test_a_reading_is_refused_for_what_the_pool_lacks() -> None:
    reading = measure(ONE, [pool(10**17)], 13_200)
    assert reading is not None
    assert reading.quality is Quality.GOOD
    assert reading.windows[0].ticks == 1_600 * -276_324 + 200 * -276_300
    refused = measure(ONE, [pool(10**16 - 1)], 13_200)
    assert refused is not None
    assert (refused.quality, refused.answer) == (Quality.THIN, 0)
    silent = measure(ONE, [pool(10**17)], 13_000 + 86_400 * 60 - (13_000 + 86_400 * 60) % 60)
    assert silent is not None
    assert silent.quality is Quality.GOOD, "silence voids nothing"
    assert measure(ONE, [pool(10**17)], 11_760) is None


def test_an_older_reading_stands_in_only_for_one_that_is_lost() -> None:
    recorded = {600: 5, 720: 7}
    assert reading_at(60, recorded, 0, 779, 0) is None  # older than asked for
    assert reading_at(60, recorded, 0, 779, 60) == (720, 7)
    with pytest.raises(NotRecordedYet, match="the reading of 660 is not recorded yet"):
        reading_at(60, recorded, 660, 700, 600)
    assert reading_at(60, recorded, 720, 700, 600) == (600, 5)
    assert reading_at(60, recorded, 720, 700, 99) is None

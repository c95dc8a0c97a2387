"""What pushes cost and how much may be staked on a pool, for pools made by hand."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.feeds.cost import (
    FULL_REACH,
    SECONDS_PER_YEAR,
    PricedPool,
    cap_factor,
    feed_cap,
    least_window,
    sigma_of,
)
from core.feeds.uniswap import MAX_TICK
from core.paths import REPOSITORY
from tests.support.pool_attacker import pool_of, pool_with

SIGMA = 2.0 / math.sqrt(SECONDS_PER_YEAR)
HALF_HOUR = 1_800
E18 = 10**18


def everywhere(dollars: int, fee_pips: int = 3_000) -> PricedPool:
    return PricedPool("", pool_of(fee_pips, False, dollars * E18 // 2), 1 / E18, 1 / E18)


def within(dollars: int, ticks: int, rest: int = 0, fee_pips: int = 3_000) -> PricedPool:
    """Return a pool with all liquidity near the price, except `rest` of it, in dollars of the same size, which is
    everywhere."""
    return PricedPool("", pool_with(fee_pips, (ticks, dollars * E18), (MAX_TICK, rest * E18)), 1 / E18, 1 / E18)


def test_half_a_percent_on_a_million_costs_seven_dollars_without_arbitrage() -> None:
    assert everywhere(1_000_000).cheapest_push_cost(0.005) == pytest.approx(6.9, abs=0.1)


def test_a_push_is_taken_back_or_sold_elsewhere_whichever_is_cheaper() -> None:
    pool = everywhere(1_000_000, 10_000)
    assert pool.push_cost(0.005) == pytest.approx(100 * pool.depth() * 0.005 * (0.01 + 0.0025), rel=0.02)  # sold off
    assert pool.push_cost(0.2) == pytest.approx(2 * 0.01 * 500_000 * (math.exp(0.1) - 1), rel=0.1)  # two fees


def test_a_pools_fee_and_depth_make_its_cap_and_the_attackers_part_is_left_out() -> None:
    source = everywhere(10_000_000)
    cap = feed_cap([source], SIGMA, 4 * HALF_HOUR, own_share=0.0)
    assert cap.factor == 35
    assert cap.sd == pytest.approx(SIGMA * math.sqrt(4 * HALF_HOUR / 3))
    assert cap.dollars == pytest.approx(35 * 0.003 * source.depth() * cap.sd)
    assert feed_cap([source], SIGMA, 4 * HALF_HOUR, own_share=0.6).dollars == pytest.approx(cap.dollars * 0.4)
    assert feed_cap([source], SIGMA, 4 * HALF_HOUR, own_share=0.7).dollars == 0  # he withdraws it, and nothing is good
    assert feed_cap([source], SIGMA, 4 * HALF_HOUR, 0.0, 175).dollars == pytest.approx(cap.dollars * 30 / 35)


@settings(max_examples=30)
@given(left=st.floats(0.05, 0.95), calm=st.floats(0.5, 0.95))
def test_a_part_of_the_liquidity_bears_that_part_of_the_cap(left: float, calm: float) -> None:
    """Where the price wanders less, the cap falls at least as much."""
    before = feed_cap([everywhere(10_000_000)], SIGMA, 4 * HALF_HOUR).dollars
    assert feed_cap([everywhere(int(10_000_000 * left))], SIGMA, 4 * HALF_HOUR).dollars == pytest.approx(
        before * left, rel=1e-5
    )
    assert feed_cap([everywhere(10_000_000)], SIGMA * calm, 4 * HALF_HOUR).dollars <= before * calm * (1 + 1e-9)


def test_a_reading_that_wanders_further_than_the_narrowest_bucket_bears_no_more() -> None:
    source, days = everywhere(1_000_000), 86_400
    assert feed_cap([source], SIGMA, days).sd == pytest.approx(math.log(1.04))
    assert feed_cap([source], SIGMA, 2 * days).dollars == feed_cap([source], SIGMA, days).dollars


def test_of_two_pools_in_a_row_the_weaker_one_decides() -> None:
    weak, strong = everywhere(1_000_000), everywhere(100_000_000)
    alone = feed_cap([weak], SIGMA, 14_400).resistance
    assert 0.98 * alone < feed_cap([weak, strong], SIGMA, 14_400).resistance < alone
    assert feed_cap([weak, weak], SIGMA, 14_400).resistance == pytest.approx(alone / 2)
    assert feed_cap([weak, weak], SIGMA, 14_400).reach == pytest.approx(2 * feed_cap([weak], SIGMA, 14_400).reach)


def test_a_window_that_is_short_for_the_fee_lowers_the_cap() -> None:
    source = everywhere(1_000_000, 10_000)
    long_enough = least_window([source], SIGMA)
    assert feed_cap([source], SIGMA, long_enough).window_is_long_enough
    assert feed_cap([source], SIGMA, long_enough).factor == 35
    assert feed_cap([source], SIGMA, long_enough // 4).factor == 7
    assert feed_cap([source], SIGMA, long_enough // 16).dollars == 0
    assert [cap_factor(each) for each in (FULL_REACH, 0.21, 0.35, 0.5, 0.61)] == pytest.approx([35, 14, 7, 2.8, 0])


def test_liquidity_that_ends_can_be_pushed_out_and_limits_the_cap() -> None:
    narrow = within(50_000_000, 20, fee_pips=10_000)
    out = narrow.push_out(HALF_HOUR)
    assert out is not None
    assert abs(out.tick) in (20, 21)
    assert out.seconds == 1  # one block with hardly any liquidity is enough
    assert out.cost == pytest.approx(narrow.cheapest_push_cost(0.002), rel=0.02)
    cap = feed_cap([narrow], SIGMA, 80 * HALF_HOUR, own_share=0.0)
    assert cap.by_push_out == pytest.approx(out.cost)
    assert cap.dollars == pytest.approx(out.cost)
    assert cap.by_pushes > out.cost


def test_a_third_of_it_elsewhere_cannot_be_pushed_under_the_floor() -> None:
    assert within(2, 120, rest=1).push_out(HALF_HOUR) is None
    assert everywhere(1_000_000).push_out(HALF_HOUR) is None


def test_unless_part_of_it_is_the_attackers_own_which_he_withdraws_first() -> None:
    assert within(2, 120, rest=1).push_out(HALF_HOUR, own_share=0.5) is not None
    assert within(1, 120, rest=2).push_out(HALF_HOUR, own_share=0.5) is None
    alone, half = (within(50_000_000, 120).push_out(HALF_HOUR, own_share=share) for share in (0.0, 0.5))
    assert alone is not None
    assert half is not None
    assert half.cost == pytest.approx(alone.cost / 2)


def test_a_twentieth_of_it_elsewhere_has_to_be_reached_for_a_part_of_the_window() -> None:
    out = within(19, 120, rest=1).push_out(HALF_HOUR)
    assert out is not None
    assert out.seconds == math.ceil(HALF_HOUR * 2 / 19)


def test_volatility_is_that_of_the_price_not_of_its_means() -> None:
    # Means over spans of a path that wanders by one a second, worked out by hand: 0.5, 1.5 and 3 differ by 1 and 1.5.
    assert sigma_of([0.5, 1.5, 3.0], 2) == pytest.approx(math.sqrt((1 + 2.25) / 2 * 3 / 4))
    with pytest.raises(ValueError, match="three spans"):
        sigma_of([1.0, 2.0], 60)


def test_the_guide_shows_the_caps_that_the_code_gives() -> None:
    page = (REPOSITORY / "docs" / "pool-feeds.md").read_text()
    rows = re.findall(r"^\| (\S+) million \| (\S+)% \| (\S+) \|.*\| (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert len(rows) == 12
    for size, fee, depth, cap, cap_of_half_a_day in rows:
        source = everywhere(round(float(size) * 1_000_000), round(float(fee) * 10_000))
        window = max(HALF_HOUR, least_window([source], SIGMA))
        caps = [feed_cap([source], SIGMA, seconds).dollars for seconds in (window, 43_200)]
        assert [float(each.replace(",", "")) for each in (depth, cap, cap_of_half_a_day)] == pytest.approx(
            [source.depth(), *caps], rel=0.05, abs=0.05
        )

"""How old readings may be: over ten years of the exchange, with the feeds' own deviation, no ordinary market is void.

A price feed writes when its price has moved by its deviation (0.5%); its heartbeat (24 hours) is longer than either
bound helps with, and off hours it has none. So a bell's reading is young because prices move, a strike's because the
bell before it had one.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from core.contracts.deployments import load_deployment
from core.paths import REPOSITORY
from core.stock.sessions import sessions_of

FEEDS = load_deployment(REPOSITORY / "deployments" / "stock.json").price_feeds
HOUR = 3600
MAX_FINAL_AGE, MAX_STRIKE_AGE = 3 * HOUR, 5 * 24 * HOUR
"""As MarketLister has them."""

DAILY = {"NVDA": 0.024, "TSLA": 0.029, "COIN": 0.040}
"""A usual day's move between open and close, one standard deviation."""


@pytest.fixture(scope="module")
def sessions() -> list[tuple[int, int]]:
    """Opens and closes of ten years, early closes and days of mourning included."""
    found = [(each.opens, each.closes) for year in range(2017, 2027) for each in sessions_of(year)]
    assert len(found) > 2_500
    return found


def test_the_exchange_was_open_for_all_the_time_that_a_reading_at_a_bell_may_be_old(
    sessions: list[tuple[int, int]],
) -> None:
    assert {feed.max_final_age_seconds for feed in FEEDS} == {MAX_FINAL_AGE}
    assert min(closes - opens for opens, closes in sessions) >= MAX_FINAL_AGE + 30 * 60  # the shortest: an early close


def test_what_lies_before_an_open_is_no_reason_to_void(sessions: list[tuple[int, int]]) -> None:
    """Even if a feed rests from a close to the next open, and its last reading was just young enough for the bell."""
    oldest = 0
    for (_, closed), (opens, _) in pairwise(sessions):
        oldest = max(oldest, opens - (closed - MAX_FINAL_AGE))
    for feed in FEEDS:
        assert oldest <= feed.max_strike_age_seconds <= MAX_STRIKE_AGE, (feed.ticker, oldest / HOUR)
    assert oldest > 90_000  # 25 hours, the old bound, were too few over any weekend


def stands_still(daily: float, deviation: float, seconds: int) -> float:
    """Return the probability that a price stays within `deviation` of a reading for so long, at its usual daily move.

    Of a Brownian motion that starts in the middle of its band, from where it stays longest: an upper bound.
    """
    variance = daily**2 * seconds / (6.5 * HOUR)
    terms = (
        (-1) ** n / (2 * n + 1) * math.exp(-((2 * n + 1) ** 2) * math.pi**2 * variance / (8 * deviation**2))
        for n in range(200)
    )
    return 4 / math.pi * sum(terms)


@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: feed.ticker)
def test_a_usual_afternoon_moves_the_price_by_the_feeds_deviation(feed: Any) -> None:
    """In ten years of usual days less than one market is void for it."""
    share = stands_still(DAILY[feed.ticker], feed.deviation_bps / 10_000, MAX_FINAL_AGE)
    assert share < 1 / 2_520, share


def test_a_stock_as_calm_as_apple_is_left_out_because_its_markets_would_be_void_too_often() -> None:
    """On 2 to 3 of 100 usual days its feed writes nothing for three hours, where it writes at 0.5%."""
    assert 0.02 < stands_still(0.013, 0.005, MAX_FINAL_AGE) < 0.03
    assert "AAPL" not in {feed.ticker for feed in FEEDS}


def test_the_bound_of_standing_still_is_one() -> None:
    assert stands_still(0.0001, 0.005, MAX_FINAL_AGE) == pytest.approx(1, abs=1e-3)
    assert stands_still(0.013, 0.005, HOUR) > stands_still(0.013, 0.005, 2 * HOUR)

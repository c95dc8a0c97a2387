"""Which markets are opened: allowed feeds and unlisted windows that the opener can pay for; short ones in turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.contracts.statuses import Family
from keeper.run import Skipped
from keeper.stock.opening import (
    FeedState,
    MarketWindow,
    Opening,
    affordable,
    decide_drills,
    decide_openings,
    listed_key,
    opener_of,
    refund_drill,
)

NVDA = FeedState("NVDA", "0x" + "aA" * 20, True, 90_000, 80_000)
TSLA = FeedState("TSLA", "0x" + "bB" * 20, True, 90_000, 90_000)
COIN = FeedState("COIN", "0x" + "cC" * 20, False, 90_000, 90_000)
DAY = MarketWindow(Family.DAILY, 1_000_000, 1_020_000)
WEEK = MarketWindow(Family.WEEKLY, 1_000_000, 1_300_000)
SEED = 10_000_000


def test_every_allowed_feed_gets_every_window() -> None:
    openings, unlisted = decide_openings([TSLA, NVDA], [WEEK, DAY], set())
    assert [(each.feed.ticker, each.window.family) for each in openings] == [
        ("NVDA", Family.DAILY),
        ("TSLA", Family.DAILY),
        ("NVDA", Family.WEEKLY),
        ("TSLA", Family.WEEKLY),
    ]
    assert unlisted == []
    assert (openings[0].feed.max_strike_age, openings[0].feed.max_final_age) == (90_000, 80_000)


@pytest.mark.parametrize(
    ("feeds", "windows", "listed", "reason"),
    [
        ([NVDA], [DAY], {listed_key(NVDA.address, DAY)}, "already listed"),
        ([COIN], [DAY], set(), "does not allow"),
        ([replace(NVDA, is_paused=True)], [DAY], set(), "its stock's oracle is paused"),
        ([NVDA], [Skipped("daily", "a holiday")], set(), "a holiday"),
    ],
)
def test_why_nothing_is_opened(
    feeds: list[FeedState], windows: list[MarketWindow | Skipped], listed: set[tuple[str, int, int, int]], reason: str
) -> None:
    openings, unlisted = decide_openings(feeds, windows, listed)
    assert openings == []
    assert reason in unlisted[0].reason


def test_another_family_or_time_of_the_same_feed_is_another_market() -> None:
    listed = {
        listed_key(NVDA.address, WEEK),
        listed_key(NVDA.address, MarketWindow(Family.DAILY, DAY.strike - 86_400, DAY.final - 86_400)),
        listed_key(TSLA.address, DAY),
    }
    openings, _ = decide_openings([NVDA], [DAY], listed)
    assert [each.window for each in openings] == [DAY]


def test_subjects_differ_for_every_market() -> None:
    openings, _ = decide_openings([NVDA, TSLA], [DAY, WEEK], set())
    assert len({each.subject for each in openings}) == 4


@pytest.mark.parametrize(
    ("balance", "allowance", "count", "asked"),
    [
        (100_000_000, 100_000_000, 3, None),
        (100_000_000, 60_000_000, 3, None),
        (100_000_000, 59_999_999, 3, 100_000_000),
        (59_999_999, 0, 2, 59_999_999),
        (20_000_000, 20_000_000, 1, None),
        (19_999_999, 0, 0, None),
        (0, 0, 0, None),
    ],
)
def test_the_opener_opens_what_it_can_seed(balance: int, allowance: int, count: int, asked: int | None) -> None:
    openings = [Opening(NVDA, MarketWindow(Family.DAILY, n, n + 1), str(n)) for n in range(3)]
    payable, short, approval = affordable(openings, SEED, balance, allowance)
    assert len(payable) == count
    assert len(short) == 3 - count
    assert approval == asked
    assert all("has only" in each.reason for each in short)


@pytest.mark.parametrize(
    ("finals", "last_opened", "opened"),
    [
        ({}, None, "NVDA"),  # no bets on any: by name
        ({NVDA.address.lower(): 900}, 500, "TSLA"),
        ({NVDA.address.lower(): 900, TSLA.address.lower(): 800}, 500, "TSLA"),  # who waits longest
        ({NVDA.address.lower(): 1001, TSLA.address.lower(): 1000}, 700, "TSLA"),  # the bell rings now
        ({NVDA.address.lower(): 1001, TSLA.address.lower(): 1001}, 700, None),  # both under way
        ({NVDA.address.lower(): 900}, 956, None),  # another was opened 44 s ago
        ({NVDA.address.lower(): 900}, 955, "TSLA"),
        ({NVDA.address.lower(): 900}, 2000, "TSLA"),  # opened in the future: the chain was set back
    ],
)
def test_short_markets_take_turns(finals: dict[str, int], last_opened: int | None, opened: str | None) -> None:
    opening, unlisted = decide_drills([NVDA, TSLA, COIN], finals, last_opened, 1000)
    assert (opening.feed.ticker if opening else None) == opened
    # Everybody is either opened or has a reason.
    assert len(unlisted) + (opening is not None) == 3
    if opening is not None:
        assert opening.window == MarketWindow(Family.DRILL, 1120, 1420)


@pytest.mark.parametrize(
    ("lanes", "named", "opener"),
    [
        pytest.param(["0xaa"], "0xAA", "0xaa", id="the one that the file names"),
        pytest.param(["0xbb"], "0xAA", "0xbb", id="rotated: its lane is gone, and the file still names it"),
        pytest.param(["0xaa", "0xbb"], "0xAA", "0xaa", id="both serve: as the file says"),
        pytest.param(["0xbb", "0xcc"], None, "0xcc", id="the file names none: the newest"),
    ],
)
def test_the_opener_is_the_key_of_its_lane(lanes: list[str], named: str | None, opener: str) -> None:
    assert opener_of(lanes, named) == opener


def test_a_refund_drill_is_stale_by_its_terms() -> None:
    opening = refund_drill(NVDA, 1000)
    assert (opening.feed.max_strike_age, opening.feed.max_final_age) == (1, 1)
    assert opening.window.strike > 1000

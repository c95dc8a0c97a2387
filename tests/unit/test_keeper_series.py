"""The standing series: when bets end, what decides, that one follows the other, that the lister would take them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agent.bet import market_key
from core.agent.book import MARGIN, MIN_BUCKET_BPS, MIN_STAKE, FeedTerms, ListingBounds, bucket, listing_terms
from core.agent.document import Specification, listed_document
from core.contracts.statuses import MarketKind
from core.money import BPS
from keeper.agent.listing import Listing, Priors, SeriesPlan, decide, round_plans, standing_plans
from keeper.agent.series import (
    HOUR,
    MIN_OPEN_SECONDS,
    OVERLAP_SECONDS,
    QUICK_SECONDS,
    Feed,
    Series,
    Slot,
    design_of,
    ladder,
    landmark,
    open_turns,
    rises,
    round_length,
    significant,
)
from keeper.run import Skipped
from keeper.sources import LatestRound

LOCAL = FeedTerms(memory=10, max_age=900, lag=10, pot_cap=10**12, published=True)
POOL = FeedTerms(memory=1860, max_age=3600, lag=0, pot_cap=10**10, published=False, step=60)
BNKR = Feed("BNKR/market_cap", "0x" + "01" * 20, LOCAL)
AIXBT = Feed("AIXBT/market_cap", "0x" + "02" * 20, POOL)
BOUNDS = ListingBounds(fee_bps=200, min_weight=10**6, max_weight=100 * 10**6, dispute_window=3600, void_delay=86_400)
PRIORS = Priors(10 * 10**6, 0.8)
VALUE = 82_412_345_67000000


def at(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp())


NOW = at("2026-11-21 04:30")
FRESH = LatestRound(VALUE, NOW - 5)


def having(feed: Feed, last: LatestRound | None = FRESH) -> Feed:
    return replace(feed, last=last)


def made(plans: list[SeriesPlan], now: int = NOW, filled: frozenset[Slot] = frozenset()) -> list[Listing]:
    return decide(plans, filled, now, BOUNDS, PRIORS)[0]


# ---------------------------------------------------------------- times


@pytest.mark.parametrize(
    ("series", "feed", "closes", "begins", "ends"),
    [
        (Series.TOUCH, BNKR, "04:58:50", "2026-11-21 05:00", "2026-11-21 06:00"),
        (Series.TOUCH, AIXBT, "04:58:00", "2026-11-21 05:30", "2026-11-21 06:30"),
        (Series.DAY, BNKR, "21:58:50", "2026-11-21 22:00", "2026-11-23 00:00"),
        (Series.LADDER, BNKR, "23:58:50", "2026-11-22 00:00", "2026-11-30 00:00"),
        (Series.FAR, BNKR, "23:58:50", "2026-12-01 00:00", "2027-03-01 00:00"),
        (Series.HOUR, BNKR, "04:58:50", "2026-11-21 05:00", "2026-11-21 06:00"),
    ],
)
def test_turns(series: Series, feed: Feed, closes: str, begins: str, ends: str) -> None:
    (turn,) = open_turns(series, feed, NOW)
    assert (turn.begins_at, turn.ends_at) == (at(begins), at(ends))
    assert datetime.fromtimestamp(turn.closes_at, UTC).strftime("%H:%M:%S") == closes


def test_a_round_is_at_least_twice_as_long_as_its_feed_remembers() -> None:
    assert round_length(BNKR, HOUR) == HOUR
    assert round_length(AIXBT, HOUR) == 2 * HOUR
    assert round_length(replace(BNKR, terms=replace(LOCAL, memory=300)), QUICK_SECONDS) == QUICK_SECONDS
    assert round_length(replace(BNKR, terms=replace(LOCAL, memory=301)), QUICK_SECONDS) == 2 * QUICK_SECONDS


FEEDS = st.builds(
    lambda memory, lag, published: Feed(
        "X/market_cap",
        "0x" + "03" * 20,
        FeedTerms(memory + 10, 3600, min(lag, memory), 10**12, published, 0 if published else 10),
    ),
    st.integers(1, 7200),
    st.integers(0, 7200),
    st.booleans(),
)
MOMENTS = st.integers(at("2026-01-01 00:00"), at("2032-12-31 23:59"))


@given(st.sampled_from(list(Series)), FEEDS, MOMENTS, st.sampled_from([300, QUICK_SECONDS, HOUR, 86_400]))
def test_a_bettor_always_finds_one_open_and_the_next_is_listed_before_it_ends(
    series: Series, feed: Feed, now: int, seconds: int
) -> None:
    turns = open_turns(series, feed, now, seconds)
    assert turns[0].closes_at - now >= MIN_OPEN_SECONDS
    if turns[0].closes_at - now <= OVERLAP_SECONDS:
        assert len(turns) == 2
        assert turns[1].closes_at > turns[0].closes_at
    # Visitors after its bets have ended are offered the market listed in the meantime.
    last = turns[0].closes_at
    following = open_turns(series, feed, last - OVERLAP_SECONDS, seconds)[1:] or open_turns(series, feed, last, seconds)
    assert open_turns(series, feed, last, seconds)[0] in (following[0], *turns)


@settings(max_examples=60)
@given(FEEDS, MOMENTS, st.integers(10**5, 10**19), st.sampled_from([300, QUICK_SECONDS, HOUR]))
def test_the_lister_takes_everything_that_is_designed(feed: Feed, now: int, value: int, seconds: int) -> None:
    """Rule 3 by the lister's own mirror, at every moment and for every feed: bets end before what decides is
    measured, and are open for at most half of what can still move."""
    last = LatestRound(value, now)
    plans = standing_plans([having(feed, last)]) + round_plans([having(feed, last)], seconds, quick=True)
    listings, unlisted = decide(plans, set(), now, BOUNDS, PRIORS)
    assert [each for each in unlisted if "too small" not in each.reason] == []
    assert len(listings) + len(unlisted) >= len(plans)
    for each in listings:
        terms = listing_terms(each.spec, feed.terms, BOUNDS, now)
        measured = each.spec.start_at or each.spec.ends_at
        assert each.spec.closes_at + MARGIN + feed.terms.memory <= measured
        assert terms.early_from in (0, each.spec.closes_at + MARGIN + feed.terms.memory)
        whole = Specification.from_listing(each.spec, bytes.fromhex("03" * 20), terms)
        assert listed_document(market_key(each.id), whole, feed.key).id == each.id
        assert sum(each.spec.weights) == len(each.spec.weights) * PRIORS.average
        assert json.loads(each.metadata.canonical()) == {"id": each.id, "series": each.slot.series}
    assert len({each.id for each in listings}) == len(listings)


# ---------------------------------------------------------------- what they ask


def test_only_feeds_without_a_publisher_are_resolved_early() -> None:
    for series in (Series.TOUCH, Series.FAR):
        assert not design_of(series, BNKR, VALUE, 0).early_resolvable
        assert design_of(series, AIXBT, VALUE, 0).early_resolvable
    assert not design_of(Series.DAY, AIXBT, VALUE, 0).early_resolvable


def test_thresholds() -> None:
    by_series = {each.slot.series: each for each in made(standing_plans([having(AIXBT)]))}
    assert by_series[Series.TOUCH].spec.target == 83_500_000 * 10**8
    assert by_series[Series.TOUCH].id == "aixbt-reaches-83-5m-mcap-by-2026-11-21-0630-bets-to-0458"
    assert by_series[Series.DAY].spec.target == 82_000_000 * 10**8
    assert by_series[Series.FAR].spec.target == 200_000_000 * 10**8
    assert by_series[Series.FAR].question.startswith(
        "Will AIXBT's market cap reach $200M between 1 Dec 2026 00:00 UTC and"
    )


def test_priors_follow_the_value() -> None:
    by_series = {each.slot.series: each.spec.weights for each in made(standing_plans([having(AIXBT)]))}
    assert abs(by_series[Series.DAY][0] - by_series[Series.DAY][1]) < 4 * 10**6, "about even at the present value"
    assert by_series[Series.FAR][0] < by_series[Series.FAR][1], "twice the value is the less likely"
    ranges = by_series[Series.LADDER]
    assert max(ranges) not in (ranges[0], ranges[-1]) or len(set(ranges)) > 1
    (round_,) = made(round_plans([having(AIXBT)], HOUR, quick=False))
    assert round_.spec.weights == (10**7, 10**7)


def test_weights_keep_to_what_the_safe_allows() -> None:
    narrow = replace(BOUNDS, min_weight=20 * 10**6, max_weight=20 * 10**6)
    listings, _ = decide(standing_plans([having(AIXBT)]), set(), NOW, narrow, PRIORS)
    assert {weight for each in listings for weight in each.spec.weights} == {20 * 10**6}


@pytest.mark.parametrize("value", [VALUE, 915_000_000 * 10**8, 1_234_567 * 10**8, 999_999_999 * 10**8, 12 * 10**8])
def test_ladders_have_five_to_eight_ranges_around_the_value(value: int) -> None:
    designs = [design_of(Series.LADDER, BNKR, value, position) for position in range(8)]
    assert {len(design.bounds) for design in designs} == {4, 5, 6, 7}
    for design in designs:
        assert design.kind is MarketKind.RANGE
        assert rises(design.bounds)
        assert 0 < bucket(design.bounds, value) < len(design.bounds), "the value lies in an inner range"


@given(value=st.integers(10**6, 10**24), buckets=st.integers(5, 8))
def test_no_bucket_of_a_ladder_is_narrower_than_the_lister_takes(value: int, buckets: int) -> None:
    bounds = ladder(value, buckets)
    assert all(high * BPS >= low * (BPS + MIN_BUCKET_BPS) for low, high in pairwise(bounds)), bounds


def test_a_value_too_small_for_ranges_has_none() -> None:
    assert not rises(ladder(3, 8))
    _, unlisted = decide(standing_plans([having(AIXBT, LatestRound(3, NOW))]), set(), NOW, BOUNDS, PRIORS)
    assert "its value is too small for distinct ranges" in [each.reason for each in unlisted]


@pytest.mark.parametrize(
    ("value", "digits", "up", "rounded"),
    [
        (12_345, 2, False, 12_000),
        (12_500, 2, False, 13_000),
        (12_001, 2, True, 13_000),
        (7, 3, True, 7),
        (999, 2, True, 1_000),
    ],
)
def test_significant_digits(value: int, digits: int, up: bool, rounded: int) -> None:
    assert significant(value, digits, up=up) == rounded


@pytest.mark.parametrize(("value", "mark"), [(1, 1), (3, 5), (6, 10), (10, 10), (11, 20), (148_342_222, 200_000_000)])
def test_landmarks(value: int, mark: int) -> None:
    assert landmark(value) == mark


# ---------------------------------------------------------------- slots


def test_a_filled_slot_is_left() -> None:
    plans = standing_plans([having(BNKR), having(AIXBT)])
    listings = made(plans)
    assert len(listings) == 8
    filled = frozenset(each.slot for each in listings)
    assert made(plans, filled=filled) == []
    _, unlisted = decide(plans, filled, NOW, BOUNDS, PRIORS)
    assert {each.reason for each in unlisted} == {"already listed"}


def test_the_next_round_is_listed_while_bets_on_this_one_are_open() -> None:
    plans = round_plans([having(BNKR)], HOUR, quick=False)
    (this,) = made(plans)
    filled = frozenset({this.slot})
    late = this.spec.closes_at - OVERLAP_SECONDS
    plans = round_plans([having(BNKR, LatestRound(VALUE, late))], HOUR, quick=False)
    assert made(plans, late - 1, filled) == []
    (following,) = made(plans, late, filled)
    assert following.spec.start_at == this.spec.start_at + HOUR
    assert following.spec.opens_at == late < this.spec.closes_at


def test_no_round_is_listed_on_a_value_that_could_not_decide_it() -> None:
    """Bets on a round end just so early that a reading may be as old as the feed's memory."""
    slow = replace(BNKR, terms=replace(LOCAL, memory=600))
    for age, listed in ((600, 1), (601, 0)):
        plans = round_plans([having(slow, LatestRound(VALUE, NOW - age))], HOUR, quick=False)
        assert len(made(plans)) == listed
    assert made(standing_plans([having(slow, LatestRound(VALUE, NOW - 601))]))  # these end later after bets do
    pool = replace(slow, terms=replace(slow.terms, lag=0, published=False, step=60))
    assert made(
        round_plans([having(pool, LatestRound(VALUE, NOW - 601))], HOUR, quick=False)
    )  # recorded when it is needed


def test_quick_rounds_are_of_the_first_feed_that_is_quick_enough() -> None:
    plans = round_plans([having(AIXBT), having(BNKR)], HOUR, quick=True)
    assert [(each.series, each.feed.symbol) for each in plans] == [
        (Series.HOUR, "AIXBT"),
        (Series.HOUR, "BNKR"),
        (Series.QUICK, "BNKR"),
    ]
    assert [each.series for each in round_plans([having(AIXBT)], HOUR, quick=True)] == [Series.HOUR]
    assert len(round_plans([having(BNKR)], QUICK_SECONDS, quick=True)) == 1


def capped(pot_cap: int) -> tuple[list[Listing], list[Skipped]]:
    small = replace(AIXBT, terms=replace(POOL, pot_cap=pot_cap))
    return decide(standing_plans([having(small)]), set(), NOW, BOUNDS, PRIORS)


def test_no_market_is_listed_whose_pot_has_no_room_for_a_stake_on_each_outcome() -> None:
    listings, unlisted = capped(2 * MIN_STAKE)
    assert {each.slot.series for each in listings} == {Series.TOUCH, Series.DAY, Series.FAR}
    assert ["the minimum stake on each of" in each.reason for each in unlisted] == [True]  # the ladder
    listings, unlisted = capped(2 * MIN_STAKE - 1)
    assert listings == []
    assert all("the minimum stake on each of" in each.reason for each in unlisted)


@pytest.mark.parametrize("pot_cap", [8 * 10**6, 15 * 10**6, 10**10])
def test_virtual_weights_do_not_outweigh_what_a_pot_may_hold(pot_cap: int) -> None:
    for each in capped(pot_cap)[0]:
        most = max(pot_cap, len(each.spec.weights) * BOUNDS.min_weight)
        assert sum(each.spec.weights) <= most + len(each.spec.weights)  # each is rounded


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (None, "no value yet"),
        (LatestRound(0, NOW), "reading is invalid"),
        (LatestRound(VALUE, NOW - 901), "901 s old"),
    ],
)
def test_nothing_is_listed_on_a_feed_without_a_fresh_value(last: LatestRound | None, said: str) -> None:
    listings, unlisted = decide(standing_plans([having(BNKR, last)]), set(), NOW, BOUNDS, PRIORS)
    assert listings == []
    assert all(said in each.reason for each in unlisted)


def test_series_of_caps_are_about_caps() -> None:
    price = replace(BNKR, key="BNKR/price")
    listings, unlisted = decide(
        standing_plans([having(price)]) + round_plans([having(price)], HOUR, quick=False), set(), NOW, BOUNDS, PRIORS
    )
    assert [each.slot.series for each in listings] == [Series.HOUR]
    assert {each.reason for each in unlisted} == {"standing series are about market caps, not price"}


def test_a_rule_that_a_market_would_break_is_named() -> None:
    _, unlisted = decide(
        standing_plans([having(AIXBT)]), set(), NOW, replace(BOUNDS, min_weight=10**8, max_weight=10**7), PRIORS
    )
    assert all("not between" in each.reason or "weight" in each.reason for each in unlisted)
    assert unlisted

"""What is listed is fair, and the times that follow. tests/integration/test_listing_mirror.py holds each rule to the
lister."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agent.book import (
    CHALLENGE_DELAY,
    MARGIN,
    MAX_CROSSING_STEPS,
    FeedTerms,
    ListingBounds,
    MarketSpec,
    Unlistable,
    listing_terms,
)
from core.contracts.statuses import MarketKind

NOW, HOUR = 1_800_000_000, 3_600
BOUNDS = ListingBounds(fee_bps=200, min_weight=10**6, max_weight=10**9, dispute_window=HOUR, void_delay=2 * HOUR)
POOL_FEED = FeedTerms(memory=1_860, max_age=HOUR, lag=90, pot_cap=50_000 * 10**6, published=False, step=60)
PUBLISHED = replace(POOL_FEED, published=True)
WEIGHTS = (10**7, 10**7)
THRESHOLD = MarketSpec(
    MarketKind.THRESHOLD, opens_at=NOW, closes_at=NOW + 10 * HOUR, ends_at=NOW + 24 * HOUR, weights=WEIGHTS, target=100
)
EARLY = replace(THRESHOLD, early_resolvable=True)
RANGE = replace(THRESHOLD, kind=MarketKind.RANGE, target=0, bounds=(10, 20), weights=(10**7,) * 3)
DIRECTION = replace(THRESHOLD, kind=MarketKind.DIRECTION, target=0, start_at=NOW + 12 * HOUR)


def refused(spec: MarketSpec, feed: FeedTerms = POOL_FEED) -> str:
    with pytest.raises(Unlistable) as caught:
        listing_terms(spec, feed, BOUNDS, NOW)
    return str(caught.value)


@pytest.mark.parametrize("spec", [THRESHOLD, RANGE, DIRECTION])
def test_what_is_not_early_settles_after_its_end_and_the_lag(spec: MarketSpec) -> None:
    terms = listing_terms(spec, POOL_FEED, BOUNDS, NOW)
    assert (terms.early_from, terms.settles_after) == (0, spec.ends_at + 90)
    assert terms.voids_after == terms.settles_after + 2 * HOUR
    assert (terms.fee_bps, terms.pot_cap, terms.max_age) == (200, 50_000 * 10**6, HOUR)


@pytest.mark.parametrize("spec", [THRESHOLD, RANGE, DIRECTION])
def test_a_published_feed_leaves_time_to_dispute(spec: MarketSpec) -> None:
    terms = listing_terms(spec, PUBLISHED, BOUNDS, NOW)
    assert terms.published
    assert terms.settles_after == spec.ends_at + 90 + HOUR
    assert terms.voids_after == terms.settles_after + 2 * HOUR


@pytest.mark.parametrize(("lag", "wait"), [(0, CHALLENGE_DELAY), (90, CHALLENGE_DELAY), (4_000, 4_000)])
def test_early_counts_only_what_no_bettor_could_see(lag: int, wait: int) -> None:
    terms = listing_terms(EARLY, replace(POOL_FEED, lag=lag), BOUNDS, NOW)
    assert terms.early_from == EARLY.closes_at + MARGIN + POOL_FEED.memory
    assert terms.settles_after == EARLY.ends_at + wait


def test_an_early_market_is_measured_for_a_million_steps_at_most() -> None:
    feed = replace(POOL_FEED, step=10)
    most = EARLY.closes_at + MARGIN + feed.memory + MAX_CROSSING_STEPS * 10
    listing_terms(replace(EARLY, ends_at=most), feed, BOUNDS, NOW)
    assert "the maximum is 1048576 grid steps" in refused(replace(EARLY, ends_at=most + 1), feed)


@pytest.mark.parametrize("spec", [THRESHOLD, RANGE, DIRECTION])
@pytest.mark.parametrize(("step", "at_the_latest"), [(0, POOL_FEED.memory), (60, 60)])
def test_a_reading_may_be_as_old_as_looks_at_no_time_of_stakes(spec: MarketSpec, step: int, at_the_latest: int) -> None:
    """One of a grid is older by a step at most when stakes end as late as they may: it looks back itself."""
    feed = replace(POOL_FEED, step=step)
    latest = (spec.start_at or spec.ends_at) - feed.memory - MARGIN
    for earlier in (0, 1, HOUR):
        closed = replace(spec, closes_at=latest - earlier, opens_at=latest - earlier - MARGIN)
        assert listing_terms(closed, feed, BOUNDS, NOW).max_age == min(feed.max_age, at_the_latest + earlier)


def test_an_opening_in_the_past_is_the_present() -> None:
    assert listing_terms(replace(THRESHOLD, opens_at=5), POOL_FEED, BOUNDS, NOW).opens_at == NOW
    assert listing_terms(replace(THRESHOLD, opens_at=NOW + 9), POOL_FEED, BOUNDS, NOW).opens_at == NOW + 9


def test_an_early_market_counts_for_as_long_as_it_took_stakes() -> None:
    counted = EARLY.ends_at - (EARLY.closes_at + MARGIN + POOL_FEED.memory)
    halves = replace(EARLY, ends_at=EARLY.ends_at - (counted - 10 * HOUR))
    listing_terms(halves, POOL_FEED, BOUNDS, NOW)
    assert f"the maximum is {10 * HOUR - 1} s" in refused(replace(halves, ends_at=halves.ends_at - 1))


TIMES = st.integers(0, 2 * HOUR)


@st.composite
def specs(draw: st.DrawFn) -> tuple[MarketSpec, FeedTerms]:
    kind = draw(st.sampled_from(MarketKind))
    opens = NOW + draw(TIMES) - HOUR
    closes = max(opens, NOW) + draw(TIMES)
    starts = closes + draw(TIMES)
    ends = starts + draw(TIMES)
    lag = draw(st.integers(0, 900))
    feed = FeedTerms(
        max(1, lag + draw(st.integers(0, 1_000))), HOUR, lag, 10**9, draw(st.booleans()), draw(st.sampled_from([0, 1]))
    )
    early = kind is MarketKind.THRESHOLD and draw(st.booleans())
    return (
        MarketSpec(
            kind,
            opens,
            closes,
            ends,
            (10**7,) * (3 if kind is MarketKind.RANGE else 2),
            starts if kind is MarketKind.DIRECTION else 0,
            100 if kind is MarketKind.THRESHOLD else 0,
            (10, 20) if kind is MarketKind.RANGE else (),
            early,
        ),
        feed,
    )


@given(specs())
@settings(max_examples=300)
def test_what_is_listed_is_fair_and_what_is_fair_is_listed(case: tuple[MarketSpec, FeedTerms]) -> None:
    spec, feed = case
    opens, last_stake = max(spec.opens_at, NOW), spec.closes_at
    counts_from = last_stake + MARGIN + feed.memory  # the earliest moment whose reading looks back at no stake's time
    stakes_run = last_stake - opens
    if spec.kind is MarketKind.DIRECTION:
        fair = spec.start_at >= counts_from and spec.ends_at - spec.start_at >= 2 * feed.memory
    elif spec.early_resolvable:
        fair = (
            not feed.published
            and feed.step != 0
            and spec.ends_at - counts_from >= stakes_run
            and spec.ends_at >= counts_from
        )
    else:
        fair = spec.ends_at >= counts_from and spec.ends_at - feed.memory - last_stake >= stakes_run
    fair = fair and last_stake > opens
    if not fair:
        refused(spec, feed)
        return
    terms = listing_terms(spec, feed, BOUNDS, NOW)
    assert terms.settles_after >= spec.ends_at + feed.lag
    assert terms.voids_after - terms.settles_after == BOUNDS.void_delay
    assert terms.early_from == (counts_from if spec.early_resolvable else 0)

"""When a market may be listed, and the times that follow: rule by rule."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agent.book import (
    CHALLENGE_DELAY,
    MARGIN,
    MAX_AHEAD,
    MAX_CROSSING_STEPS,
    MAX_VALUE,
    FeedTerms,
    ListingBounds,
    MarketSpec,
    Rule,
    Unlistable,
    listing_terms,
)
from core.contracts.abi import abi
from core.contracts.statuses import ListingField, MarketKind
from core.paths import REPOSITORY

NOW, HOUR = 1_800_000_000, 3_600
LATEST = NOW + MAX_AHEAD
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


def refused(spec: MarketSpec, feed: FeedTerms = POOL_FEED, now: int = NOW) -> Unlistable:
    with pytest.raises(Unlistable) as caught:
        listing_terms(spec, feed, BOUNDS, now)
    return caught.value


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
def test_early_counts_only_what_nobody_who_staked_could_see(lag: int, wait: int) -> None:
    terms = listing_terms(EARLY, replace(POOL_FEED, lag=lag), BOUNDS, NOW)
    assert terms.early_from == EARLY.closes_at + MARGIN + POOL_FEED.memory
    assert terms.settles_after == EARLY.ends_at + wait


def test_an_early_market_is_measured_for_a_million_steps_at_most() -> None:
    feed = replace(POOL_FEED, step=10)
    most = EARLY.closes_at + MARGIN + feed.memory + MAX_CROSSING_STEPS * 10
    listing_terms(replace(EARLY, ends_at=most), feed, BOUNDS, NOW)
    assert refused(replace(EARLY, ends_at=most + 1), feed).numbers == (ListingField.ENDS_AT, most + 1, 1, most)


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


def test_a_direction_closes_before_its_start_is_measured() -> None:
    latest = DIRECTION.start_at - POOL_FEED.memory - MARGIN
    listing_terms(replace(DIRECTION, closes_at=latest), POOL_FEED, BOUNDS, NOW)
    fault = refused(replace(DIRECTION, closes_at=latest + 1))
    assert (fault.rule, fault.numbers) == (Rule.CLOSES_TOO_LATE, (latest + 1, latest))


def test_a_direction_is_twice_its_feeds_memory_long() -> None:
    least = 2 * POOL_FEED.memory
    listing_terms(replace(DIRECTION, ends_at=DIRECTION.start_at + least), POOL_FEED, BOUNDS, NOW)
    fault = refused(replace(DIRECTION, ends_at=DIRECTION.start_at + least - 1))
    assert (fault.rule, fault.numbers) == (Rule.ROUND_TOO_SHORT, (least - 1, least))
    assert refused(replace(DIRECTION, ends_at=DIRECTION.start_at - 1)).numbers == (0, least)


def test_a_direction_without_a_start_has_no_time_to_take_stakes() -> None:
    fault = refused(replace(DIRECTION, start_at=0))
    assert (fault.rule, fault.numbers) == (Rule.CLOSES_TOO_LATE, (DIRECTION.closes_at, 0))


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        (replace(THRESHOLD, weights=(10**7, 10**6 - 1)), (ListingField.WEIGHT, 10**6 - 1, 10**6, 10**9)),
        (replace(THRESHOLD, target=MAX_VALUE + 1), (ListingField.TARGET, MAX_VALUE + 1, 1, MAX_VALUE)),
        (replace(RANGE, bounds=(1, MAX_VALUE + 1)), (ListingField.BOUNDS, MAX_VALUE + 1, 1, MAX_VALUE)),
        (replace(THRESHOLD, ends_at=LATEST + 1), (ListingField.ENDS_AT, LATEST + 1, 1, LATEST)),
    ],
)
def test_numbers_out_of_bounds_are_named(spec: MarketSpec, numbers: tuple[int, ...]) -> None:
    fault = refused(spec)
    assert (fault.rule, fault.numbers) == (Rule.OUT_OF_BOUNDS, numbers)


@pytest.mark.parametrize("spec", [THRESHOLD, RANGE])
def test_stakes_end_before_the_end_is_measured(spec: MarketSpec) -> None:
    latest = spec.ends_at - POOL_FEED.memory - MARGIN
    late = replace(spec, closes_at=latest, opens_at=latest - MARGIN)
    listing_terms(late, POOL_FEED, BOUNDS, NOW)
    fault = refused(replace(late, closes_at=latest + 1))
    assert (fault.rule, fault.numbers) == (Rule.CLOSES_TOO_LATE, (latest + 1, latest))


@pytest.mark.parametrize("spec", [THRESHOLD, RANGE])
def test_stakes_are_open_for_half_of_what_can_still_move_the_answer(spec: MarketSpec) -> None:
    left = spec.ends_at - POOL_FEED.memory - spec.closes_at
    early = replace(spec, closes_at=spec.ends_at - POOL_FEED.memory - 7 * HOUR, opens_at=spec.opens_at)
    assert left > 7 * HOUR
    listing_terms(replace(early, opens_at=early.closes_at - 7 * HOUR), POOL_FEED, BOUNDS, NOW)
    fault = refused(replace(early, opens_at=early.closes_at - 7 * HOUR - 1))
    assert (fault.rule, fault.numbers) == (Rule.OPEN_FOR_TOO_LONG, (7 * HOUR + 1, 7 * HOUR))


def test_an_early_market_counts_for_as_long_as_it_took_stakes() -> None:
    counted = EARLY.ends_at - (EARLY.closes_at + MARGIN + POOL_FEED.memory)
    halves = replace(EARLY, ends_at=EARLY.ends_at - (counted - 10 * HOUR))
    listing_terms(halves, POOL_FEED, BOUNDS, NOW)
    fault = refused(replace(halves, ends_at=halves.ends_at - 1))
    assert (fault.rule, fault.numbers) == (Rule.OPEN_FOR_TOO_LONG, (10 * HOUR, 10 * HOUR - 1))


@pytest.mark.parametrize(
    ("spec", "feed", "rule"),
    [
        (replace(THRESHOLD, closes_at=NOW), POOL_FEED, Rule.CLOSES_IN_THE_PAST),
        (replace(THRESHOLD, opens_at=NOW + HOUR, closes_at=NOW + HOUR), POOL_FEED, Rule.CLOSES_BEFORE_IT_OPENS),
        (EARLY, PUBLISHED, Rule.NOT_EARLY_ON_THIS_FEED),
        (EARLY, replace(POOL_FEED, step=0), Rule.NOT_EARLY_ON_THIS_FEED),
        (replace(THRESHOLD, weights=(10**7,) * 3), POOL_FEED, Rule.WRONG_NUMBER_OF_OUTCOMES),
        (replace(DIRECTION, weights=(10**7,)), POOL_FEED, Rule.WRONG_NUMBER_OF_OUTCOMES),
        (replace(RANGE, weights=(10**7,) * 9, bounds=tuple(range(1, 9))), POOL_FEED, Rule.WRONG_NUMBER_OF_OUTCOMES),
        (replace(THRESHOLD, weights=(10**7, 10**6 - 1)), POOL_FEED, Rule.OUT_OF_BOUNDS),
        (replace(THRESHOLD, weights=(10**9 + 1, 10**7)), POOL_FEED, Rule.OUT_OF_BOUNDS),
        (replace(THRESHOLD, target=0), POOL_FEED, Rule.TARGET_MUST_BE_POSITIVE),
        (replace(RANGE, target=5), POOL_FEED, Rule.FIELD_NOT_USED_BY_KIND),
        (replace(DIRECTION, early_resolvable=True), POOL_FEED, Rule.FIELD_NOT_USED_BY_KIND),
        (replace(THRESHOLD, start_at=NOW + HOUR), POOL_FEED, Rule.FIELD_NOT_USED_BY_KIND),
        (replace(THRESHOLD, bounds=(1,)), POOL_FEED, Rule.FIELD_NOT_USED_BY_KIND),
        (replace(RANGE, bounds=(10,)), POOL_FEED, Rule.BOUNDS_DO_NOT_MATCH_OUTCOMES),
        (replace(RANGE, bounds=(10, 10)), POOL_FEED, Rule.BOUNDS_MUST_RISE),
        (replace(RANGE, bounds=(0, 10)), POOL_FEED, Rule.BOUNDS_MUST_RISE),
        (replace(RANGE, bounds=(1_001, 1_041)), POOL_FEED, Rule.BOUNDS_MUST_RISE),
    ],
)
def test_each_rule_is_named(spec: MarketSpec, feed: FeedTerms, rule: Rule) -> None:
    fault = refused(spec, feed)
    assert fault.rule is rule
    assert str(fault).endswith(f"({rule.value})")


def test_a_bucket_is_at_least_four_percent_wide() -> None:
    assert refused(replace(RANGE, bounds=(1_001, 1_041)), POOL_FEED).numbers == (1, 1_041, 1_042)  # 1,041.04, up
    listing_terms(replace(RANGE, bounds=(1_001, 1_042)), POOL_FEED, BOUNDS, NOW)
    listing_terms(replace(RANGE, bounds=(1, 2)), POOL_FEED, BOUNDS, NOW)


def test_every_rule_is_an_error_of_the_lister() -> None:
    assert {rule.value for rule in Rule} <= {error.name for error in abi("AgentLister").errors.values()}


def test_fields_are_numbered_as_the_lister_numbers_them() -> None:
    source = (REPOSITORY / "contracts" / "agent" / "IAgentLister.sol").read_text()
    names = re.findall(r"\w+", source.split("enum Field {")[1].split("}")[0])
    for field in ListingField:
        assert names[field] == "".join(word.title() for word in field.name.split("_"))


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
@settings(max_examples=1_000)
def test_what_is_listed_is_fair_and_what_is_fair_is_listed(case: tuple[MarketSpec, FeedTerms]) -> None:
    """By the moments themselves: which seconds count towards the answer, and which still take stakes."""
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

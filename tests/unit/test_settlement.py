"""Properties of the settlement mirror, against exact arithmetic where the contract can only approximate."""

from __future__ import annotations

from decimal import Decimal, getcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agent.book import (
    DOWN,
    MAX_STAKE,
    MIN_STAKE,
    NO,
    UP,
    YES,
    DecidingTerms,
    Reading,
    Verdict,
    amount_for_shares,
    bucket,
    decide,
    fee_of,
    is_crossing,
    shares_for,
)
from core.agent.fixed import WAD, ln_wad
from core.contracts.statuses import MarketKind, VoidReason
from core.money import BPS
from tests.support.depth import EXAMPLES
from tests.support.settlement_books import History, histories, orders

getcontext().prec = 90

MAX_POT, MAX_FEE_BPS = 10**18, 1_000  # as the contracts have them
ENDS, START, EARLY, MAX_AGE = 100_000, 50_000, 40_000, 3_600

weights = orders(10_000, MAX_POT)
others = orders(10_000, MAX_POT)
fees = st.integers(0, MAX_FEE_BPS)


def exact_shares(s: int, weight: int, total: int) -> Decimal:
    return s + (total - weight) * (Decimal(weight + s) / Decimal(weight)).ln()


# ---------------------------------------------------------------- Fixed point


@given(orders(WAD, 2**41 * WAD))
def test_ln_is_within_a_unit_and_the_approximation_within_six_hundredths(x: int) -> None:
    exact = (Decimal(x) / WAD).ln() * WAD
    assert -1 - Decimal("0.06") < ln_wad(x) - exact < Decimal("0.06")


@given(orders(WAD, 2**41 * WAD))
def test_ln_never_falls(x: int) -> None:
    assert ln_wad(x + 1) >= ln_wad(x)


@pytest.mark.parametrize("x", [0, -1, 2**255])
def test_ln_refuses_what_solidity_would(x: int) -> None:
    with pytest.raises(ValueError, match="positive int256"):
        ln_wad(x)


# ---------------------------------------------------------------- Pricing


@given(weights, others, orders(900_000, MAX_STAKE))
@settings(max_examples=EXAMPLES)
def test_shares_never_exceed_the_integral_and_miss_it_by_little(weight: int, rest: int, s: int) -> None:
    got = shares_for(s, weight, weight + rest)
    exact = exact_shares(s, weight, weight + rest)
    assert got <= exact
    assert exact - got < 1 + Decimal(rest) * Decimal("5.06e-18")


@given(weights, others, fees, st.lists(orders(MIN_STAKE, MAX_STAKE // 50), min_size=2, max_size=50))
@settings(max_examples=EXAMPLES)
def test_splitting_a_stake_never_yields_more_shares(weight: int, rest: int, fee_bps: int, pieces: list[int]) -> None:
    total = weight + rest
    whole = shares_for(amount_for_shares(sum(pieces), fee_bps), weight, total)
    parts = 0
    for piece in pieces:
        parts += shares_for(amount_for_shares(piece, fee_bps), weight, total)
        enters = piece - fee_of(piece, fee_bps)
        weight, total = weight + enters, total + enters
    assert parts <= whole


@given(orders(MIN_STAKE, MAX_STAKE), fees)
def test_fee_and_buying_bracket_the_net_stake(amount: int, fee_bps: int) -> None:
    fee = fee_of(amount, fee_bps)
    assert fee * BPS <= amount * fee_bps < (fee + 1) * BPS
    assert 0 <= amount - fee - amount_for_shares(amount, fee_bps) <= 1


@given(histories())
def test_a_stake_raises_the_price_of_its_outcome_and_of_no_other(history: History) -> None:
    for step in history.steps:
        before, after, outcome = step.before, step.after, step.outcome
        assert step.quote.price_before == before.price(outcome)
        assert step.quote.price_after == after.price(outcome)
        assert after.price(outcome) >= before.price(outcome)
        assert all(after.price(o) <= before.price(o) for o in range(after.outcomes) if o != outcome)


@given(histories())
def test_books_add_up(history: History) -> None:
    book, steps = history.book, history.steps
    for outcome in range(book.outcomes):
        on_it = [step for step in steps if step.outcome == outcome]
        nets = [step.amount - fee_of(step.amount, book.fee_bps) for step in on_it]
        assert book.net[outcome] == sum(nets)
        assert book.shares[outcome] == sum(step.quote.shares for step in on_it)
        assert book.excess[outcome] == sum(
            max(0, step.quote.shares - net) for step, net in zip(on_it, nets, strict=True)
        )
    assert WAD - book.outcomes < sum(book.price(o) for o in range(book.outcomes)) <= WAD


@given(st.lists(orders(10_000, 2**32 - 1), min_size=2, max_size=8), fees)
def test_prices_begin_at_the_prior(virtual: list[int], fee_bps: int) -> None:
    book = History.start(virtual, fee_bps).book
    for outcome, weight in enumerate(virtual):
        assert book.price(outcome) == weight * WAD // sum(virtual)


# ---------------------------------------------------------------- Results


def terms(kind: MarketKind, *, early: bool = False, bounds: tuple[int, ...] = ()) -> DecidingTerms:
    return DecidingTerms(
        kind=kind,
        target=100 if kind is MarketKind.THRESHOLD else 0,
        bounds=bounds,
        early_resolvable=early,
        published=False,
        max_age=MAX_AGE,
        start_at=START if kind is MarketKind.DIRECTION else 0,
        ends_at=ENDS,
        early_from=EARLY if early else 0,
        settles_after=ENDS + (600 if early else 0),
        voids_after=ENDS + 10_000,
    )


@pytest.mark.parametrize(
    ("answer", "updated_at", "verdict"),
    [
        (100, ENDS, Verdict(YES)),
        (99, ENDS, Verdict(NO)),
        (100, ENDS - MAX_AGE, Verdict(YES)),
        (100, ENDS - MAX_AGE - 1, Verdict(None, VoidReason.STALE)),
        (0, ENDS, Verdict(None, VoidReason.BAD_ANSWER)),
        (-5, ENDS - MAX_AGE - 1, Verdict(None, VoidReason.BAD_ANSWER)),
    ],
)
def test_threshold(answer: int, updated_at: int, verdict: Verdict) -> None:
    assert decide(terms(MarketKind.THRESHOLD), Reading(answer, updated_at)) == verdict


def test_threshold_met_before_its_interval_began() -> None:
    late = DecidingTerms(
        MarketKind.THRESHOLD, 100, (), True, False, MAX_AGE, 0, ENDS, ENDS - 10, ENDS + 600, ENDS + 10_000
    )
    assert decide(late, Reading(100, ENDS - 11)) == Verdict(None, VoidReason.MET_BEFORE_START)
    assert decide(late, Reading(100, ENDS - 10)) == Verdict(YES)
    assert decide(late, Reading(99, ENDS - 11)) == Verdict(NO)


def test_no_reading_voids() -> None:
    assert decide(terms(MarketKind.THRESHOLD), None) == Verdict(None, VoidReason.NO_READING)


@pytest.mark.parametrize(
    ("reading", "now", "counts"),
    [
        (Reading(100, EARLY), EARLY + 1, True),
        (Reading(100, ENDS), ENDS + 1, True),
        (Reading(99, EARLY), EARLY + 1, False),
        (Reading(100, EARLY - 1), EARLY + 1, False),
        (Reading(100, ENDS + 1), ENDS + 2, False),
        (Reading(100, EARLY), EARLY, False),
    ],
)
def test_crossings(reading: Reading, now: int, counts: bool) -> None:
    assert is_crossing(terms(MarketKind.THRESHOLD, early=True), reading, now) is counts
    assert not is_crossing(terms(MarketKind.THRESHOLD), reading, now)


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 0), (49, 0), (50, 1), (99, 1), (100, 2), (199, 2), (200, 3), (10**9, 3)]
)
def test_buckets(value: int, expected: int) -> None:
    assert bucket((50, 100, 200), value) == expected
    assert decide(terms(MarketKind.RANGE, bounds=(50, 100, 200)), Reading(value, ENDS)) == Verdict(expected)


@pytest.mark.parametrize(
    ("start", "end", "verdict"),
    [
        (Reading(100, START), Reading(101, ENDS), Verdict(UP)),
        (Reading(100, START), Reading(99, ENDS), Verdict(DOWN)),
        (Reading(100, START), Reading(100, ENDS), Verdict(None, VoidReason.TIE)),
        (None, Reading(100, ENDS), Verdict(None, VoidReason.NO_READING)),
        (Reading(0, START), Reading(100, ENDS), Verdict(None, VoidReason.BAD_ANSWER)),
        (Reading(100, START - MAX_AGE - 1), Reading(100, ENDS), Verdict(None, VoidReason.STALE)),
        (None, Reading(0, ENDS), Verdict(None, VoidReason.BAD_ANSWER)),
    ],
)
def test_direction(start: Reading | None, end: Reading, verdict: Verdict) -> None:
    assert decide(terms(MarketKind.DIRECTION), end, start) == verdict

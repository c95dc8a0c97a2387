"""Properties of the settlement mirror, against exact arithmetic where the contract can only approximate."""

from __future__ import annotations

from decimal import Decimal, getcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.mirror.fixed import WAD, ln_wad, mul_div
from core.mirror.settlement import (
    BPS,
    DOWN,
    MAX_POOL,
    MAX_STAKE,
    MIN_STAKE,
    NO,
    UP,
    YES,
    Book,
    Kind,
    Reading,
    Terms,
    Verdict,
    VoidReason,
    bucket,
    buying,
    crosses,
    decide,
    fee_of,
    shares_for,
)

getcontext().prec = 90

OPENS, CLOSES, MAX_AGE = 1_000, 100_000, 3_600


def orders(low: int, high: int) -> st.SearchStrategy[int]:
    """Integers in [low, high] with every order of magnitude about as likely."""
    span = high - low

    def within(bits: int) -> st.SearchStrategy[int]:
        return st.integers(0, min(span, (1 << bits) - 1)).map(lambda x: low + x)

    return st.integers(0, span.bit_length()).flatmap(within)


weights = orders(62_500, 10**20)
others = orders(62_500, MAX_POOL)
fees = st.integers(0, 1_000)


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


@given(st.integers(0, 2**256), st.integers(0, 2**256), st.integers(1, 2**256))
def test_mul_div_rounds_as_it_says(a: int, b: int, divisor: int) -> None:
    assert mul_div(a, b, divisor) * divisor <= a * b < (mul_div(a, b, divisor) + 1) * divisor


# ---------------------------------------------------------------- Pricing


@given(weights, others, orders(900_000, MAX_STAKE))
@settings(max_examples=500)
def test_shares_never_exceed_the_integral_and_miss_it_by_little(weight: int, rest: int, s: int) -> None:
    got = shares_for(s, weight, weight + rest)
    exact = exact_shares(s, weight, weight + rest)
    assert got <= exact
    assert exact - got < 1 + Decimal(rest) * Decimal("5.06e-18")


@given(weights, others, fees, st.lists(orders(MIN_STAKE, MAX_STAKE // 50), min_size=2, max_size=50))
@settings(max_examples=500)
def test_splitting_a_stake_never_yields_more_shares(weight: int, rest: int, fee_bps: int, pieces: list[int]) -> None:
    total = weight + rest
    whole = shares_for(buying(sum(pieces), fee_bps), weight, total)
    parts = 0
    for piece in pieces:
        parts += shares_for(buying(piece, fee_bps), weight, total)
        enters = piece - fee_of(piece, fee_bps)
        weight, total = weight + enters, total + enters
    assert parts <= whole


def test_without_the_margin_splitting_would_pay() -> None:
    """The rounding rules are needed: with plain floors there are books on which pieces get more than the whole."""

    def plain(s: int, weight: int, total: int) -> int:
        return s + (total - weight) * ln_wad((weight + s) * WAD // weight) // WAD

    weight, rest, first, second = 843_083_521_199_358, 10**18, 7_251_467, 3_145_864
    whole = plain(first + second, weight, weight + rest)
    assert plain(first, weight, weight + rest) + plain(second, weight + first, weight + first + rest) == whole + 1
    whole = shares_for(first + second, weight, weight + rest)
    assert shares_for(first, weight, weight + rest) + shares_for(second, weight + first, weight + first + rest) <= whole


def test_with_plain_net_stakes_splitting_would_pay() -> None:
    """Shares are bought with the fee rounded up: 50 floors of a fee of 1.99 units are 49 units less than one floor."""
    amount, fee_bps = MIN_STAKE + 99, 100
    whole = 50 * amount - fee_of(50 * amount, fee_bps)
    assert 50 * (amount - fee_of(amount, fee_bps)) == whole + 49
    assert 50 * buying(amount, fee_bps) <= buying(50 * amount, fee_bps)


@given(orders(MIN_STAKE, MAX_STAKE), fees)
def test_fee_and_buying_bracket_the_net_stake(amount: int, fee_bps: int) -> None:
    fee = fee_of(amount, fee_bps)
    assert fee * BPS <= amount * fee_bps < (fee + 1) * BPS
    assert 0 <= amount - fee - buying(amount, fee_bps) <= 1


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Book, int, int, int]]:
    """Books after each of some stakes, with the stake's outcome, amount and shares."""
    outcomes = draw(st.integers(2, 16))
    book = Book.empty(outcomes, draw(orders(10**6, 10**12)), draw(fees))
    told = []
    for _ in range(draw(st.integers(1, 12))):
        outcome, amount = draw(st.integers(0, outcomes - 1)), draw(orders(MIN_STAKE, MAX_STAKE))
        before = book
        book, got = book.staked(outcome, amount)
        assert got.price_before == before.price(outcome)
        assert got.price_after == book.price(outcome)
        assert book.price(outcome) >= before.price(outcome)
        assert all(book.price(o) <= before.price(o) for o in range(outcomes) if o != outcome)
        told.append((book, outcome, amount, got.shares))
    return told


@given(histories())
def test_books_add_up(told: list[tuple[Book, int, int, int]]) -> None:
    book = told[-1][0]
    assert book.net_pool == sum(a - fee_of(a, book.fee_bps) for _, _, a, _ in told)
    assert sum(book.shares) == sum(shares for *_, shares in told)
    assert WAD - book.outcomes < sum(book.price(o) for o in range(book.outcomes)) <= WAD


@given(histories())
def test_payouts_are_the_pool_less_dust_and_refunds_are_whole(told: list[tuple[Book, int, int, int]]) -> None:
    book = told[-1][0]
    for winner in range(book.outcomes):
        owed = [book.owed(winner, outcome, amount, shares) for _, outcome, amount, shares in told]
        if book.refunds(winner):
            assert owed == [amount for _, _, amount, _ in told]
        else:
            winners = sum(outcome == winner for _, outcome, _, _ in told)
            assert book.net_pool - winners < sum(owed) <= book.net_pool
    assert book.refunds(None)
    assert [book.owed(None, o, a, s) for _, o, a, s in told] == [a for _, _, a, _ in told]


# ---------------------------------------------------------------- Results


def threshold(*, early: bool = False, opens: int = OPENS) -> Terms:
    return Terms(Kind.THRESHOLD, opens, CLOSES, MAX_AGE, target=100, early_resolvable=early)


@pytest.mark.parametrize(
    ("answer", "updated_at", "verdict"),
    [
        (100, CLOSES, Verdict(YES)),
        (99, CLOSES, Verdict(NO)),
        (100, CLOSES - MAX_AGE, Verdict(YES)),
        (100, CLOSES - MAX_AGE - 1, Verdict(None, VoidReason.STALE)),
        (0, CLOSES, Verdict(None, VoidReason.BAD_ANSWER)),
        (-5, CLOSES - MAX_AGE - 1, Verdict(None, VoidReason.BAD_ANSWER)),
    ],
)
def test_threshold(answer: int, updated_at: int, verdict: Verdict) -> None:
    assert decide(threshold(), Reading(answer, updated_at)) == verdict


def test_threshold_met_before_it_opened() -> None:
    terms = threshold(early=True, opens=CLOSES - 10)
    assert decide(terms, Reading(100, CLOSES - 11)) == Verdict(None, VoidReason.MET_BEFORE_OPEN)
    assert decide(terms, Reading(100, CLOSES - 10)) == Verdict(YES)
    assert decide(terms, Reading(99, CLOSES - 11)) == Verdict(NO)


def test_no_reading_voids() -> None:
    assert decide(threshold(), None) == Verdict(None, VoidReason.NO_READING)


@pytest.mark.parametrize(
    ("reading", "now", "counts"),
    [
        (Reading(100, OPENS), OPENS + 1, True),
        (Reading(100, CLOSES), CLOSES + 1, True),
        (Reading(99, OPENS), OPENS + 1, False),
        (Reading(100, OPENS - 1), OPENS + 1, False),
        (Reading(100, CLOSES + 1), CLOSES + 2, False),
        (Reading(100, OPENS), OPENS, False),
    ],
)
def test_crossings(reading: Reading, now: int, counts: bool) -> None:
    assert crosses(threshold(early=True), reading, now) is counts
    assert not crosses(threshold(), reading, now)


@pytest.mark.parametrize(
    ("early", "lag", "after"), [(False, 0, 0), (False, 60, 60), (True, 0, 600), (True, 60, 600), (True, 900, 900)]
)
def test_when_the_deadline_reading_counts(early: bool, lag: int, after: int) -> None:
    terms = Terms(Kind.THRESHOLD, OPENS, CLOSES, MAX_AGE, early_resolvable=early, lag=lag)
    assert terms.settles_after == CLOSES + after


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 0), (49, 0), (50, 1), (99, 1), (100, 2), (199, 2), (200, 3), (10**9, 3)]
)
def test_buckets(value: int, expected: int) -> None:
    assert bucket((50, 100, 200), value) == expected
    terms = Terms(Kind.RANGE, OPENS, CLOSES, MAX_AGE, bounds=(50, 100, 200))
    assert decide(terms, Reading(value, CLOSES)) == Verdict(expected)


@pytest.mark.parametrize(
    ("start", "end", "verdict"),
    [
        (Reading(100, 50_000), Reading(101, CLOSES), Verdict(UP)),
        (Reading(100, 50_000), Reading(99, CLOSES), Verdict(DOWN)),
        (Reading(100, 50_000), Reading(100, CLOSES), Verdict(None, VoidReason.TIE)),
        (None, Reading(100, CLOSES), Verdict(None, VoidReason.NO_READING)),
        (Reading(0, 50_000), Reading(100, CLOSES), Verdict(None, VoidReason.BAD_ANSWER)),
        (Reading(100, 50_000 - MAX_AGE - 1), Reading(100, CLOSES), Verdict(None, VoidReason.STALE)),
        (None, Reading(0, CLOSES), Verdict(None, VoidReason.BAD_ANSWER)),
    ],
)
def test_direction(start: Reading | None, end: Reading, verdict: Verdict) -> None:
    terms = Terms(Kind.DIRECTION, OPENS, CLOSES, MAX_AGE, start_at=50_000)
    assert decide(terms, end, start) == verdict

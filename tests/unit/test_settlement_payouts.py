"""Who is paid what: rule by rule against a model that keeps every stake and divides in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.agent.book import MAX_STAKE, MIN_STAKE, fee_of
from tests.support.depth import EXAMPLES
from tests.support.settlement_books import MAX_WEIGHT, MIN_WEIGHT, History, histories, orders

FEE_BPS = 200


def model(history: History, winner: int | None) -> list[Fraction]:
    """The rule in words: stakes go back whole unless there are winners and losers. Then the pool by shares if it
    has a dollar for each; else every winner's net stake, and the losers' by what the shares promised beyond."""
    stakes = [
        (step.outcome, step.amount, step.amount - fee_of(step.amount, history.book.fee_bps), step.quote.shares)
        for step in history.steps
    ]
    winners = [(net, shares) for outcome, _, net, shares in stakes if outcome == winner]
    losers = [net for outcome, _, net, _ in stakes if outcome != winner]
    if not winners or not losers:
        return [Fraction(amount) for _, amount, _, _ in stakes]
    pool = sum(net for _, _, net, _ in stakes)
    issued = sum(shares for _, shares in winners)
    promised = sum(max(0, shares - net) for net, shares in winners)
    paid = []
    for outcome, _, net, shares in stakes:
        if outcome != winner:
            paid.append(Fraction(0))
        elif pool >= issued:
            paid.append(Fraction(pool * shares, issued))
        else:
            paid.append(net + Fraction(max(0, shares - net) * sum(losers), promised))
    return paid


def both_won_and_lost(history: History, winner: int) -> bool:
    return {step.outcome == winner for step in history.steps} == {True, False}


@given(histories())
@settings(max_examples=EXAMPLES)
def test_every_stake_is_owed_what_the_model_says_rounded_down(history: History) -> None:
    book, amounts = history.book, [step.amount for step in history.steps]
    for winner in (None, *range(book.outcomes)):
        owed = history.owed(winner)
        assert owed == [floor(part) for part in model(history, winner)]
        if winner is None or not both_won_and_lost(history, winner):
            assert book.refunds(winner)
            assert owed == amounts
            continue
        assert not book.refunds(winner)
        won = [(step.quote, paid) for step, paid in zip(history.steps, owed, strict=True) if step.outcome == winner]
        assert book.net_pool - len(won) < sum(owed) <= book.net_pool
        for quote, paid in won:
            # A unit short where the price is one to a millionth: shares are bought with the fee rounded up.
            assert paid >= min(quote.net, quote.shares) >= quote.net - 1


@given(st.lists(orders(MIN_STAKE, MAX_STAKE), min_size=1, max_size=8), orders(MIN_WEIGHT, MAX_WEIGHT))
def test_both_branches_meet(stakes: list[int], weight: int) -> None:
    history = History.start([weight, weight], FEE_BPS)
    for amount in stakes:
        history = history.staked(0, amount)
    book = history.book
    level = book.shares[0] - book.net[0]
    assume(level > 1)
    for others, alike in ((level, True), (level - 1, False)):
        settled = replace(book, net=(book.net[0], others))
        assert settled.pays_alike(0) is alike
        for step in history.steps:
            shares = step.quote.shares
            assert abs(settled.payout(0, step.amount, shares) - shares) <= 1 + len(stakes)


@given(histories())
@settings(max_examples=EXAMPLES)
def test_a_projection_is_the_payout_of_the_book_as_it_stands(history: History) -> None:
    for step in history.steps:
        owed = history.book.owed(step.outcome, step.outcome, step.amount, step.quote.shares)
        assert history.book.projected(step.outcome, step.amount, step.quote.shares) == owed


@st.composite
def cut_stakes(draw: st.DrawFn) -> tuple[History, History, int, int]:
    """A market with a stake placed whole and the same market with it cut; the stake's outcome and its position."""
    outcomes = draw(st.integers(2, 8))
    weights = draw(st.lists(orders(MIN_WEIGHT, MAX_WEIGHT), min_size=outcomes, max_size=outcomes))
    amounts = orders(MIN_STAKE, 10**10)
    stakes = st.lists(st.tuples(st.integers(0, outcomes - 1), amounts), max_size=5)
    before, after = draw(stakes), draw(stakes)
    outcome, pieces = draw(st.integers(0, outcomes - 1)), draw(st.lists(amounts, min_size=2, max_size=6))
    whole = cut = History.start(weights, draw(st.integers(0, 1_000)))
    for other, amount in before:
        whole, cut = whole.staked(other, amount), cut.staked(other, amount)
    whole = whole.staked(outcome, sum(pieces))
    for piece in pieces:
        cut = cut.staked(outcome, piece)
    for other, amount in after:
        whole, cut = whole.staked(other, amount), cut.staked(other, amount)
    return whole, cut, outcome, len(before)


@given(cut_stakes())
@settings(max_examples=EXAMPLES)
def test_a_stake_cut_into_pieces_is_paid_no_more(case: tuple[History, History, int, int]) -> None:
    whole, cut, outcome, position = case
    pieces = len(cut.steps) - len(whole.steps) + 1
    one = whole.owed(outcome)[position]
    parts = sum(cut.owed(outcome)[position : position + pieces])
    # The pieces' fees, each rounded down, leave up to a unit more each in the pool: a millionth of the smallest stake.
    assert parts <= one + one * 2 * pieces // MIN_STAKE + 2 * pieces


@given(
    st.lists(orders(MIN_WEIGHT, MAX_WEIGHT), min_size=2, max_size=8),
    st.lists(orders(MIN_STAKE, MAX_STAKE), min_size=1, max_size=8),
    st.integers(0, 7),
    orders(MIN_STAKE, MAX_STAKE),
    st.integers(1, 7),
)
@settings(max_examples=EXAMPLES)
def test_adding_another_side_to_a_one_sided_market_loses(
    weights: list[int], stakes: list[int], holder: int, amount: int, other: int
) -> None:
    assume(holder < len(stakes) and other < len(weights))
    one_sided = History.start(weights, FEE_BPS)
    for stake in stakes:
        one_sided = one_sided.staked(0, stake)
    assert one_sided.owed(0)[holder] == stakes[holder]
    both = one_sided.staked(other, amount)
    fees = fee_of(stakes[holder], FEE_BPS) + fee_of(amount, FEE_BPS)
    assert both.owed(0)[holder] - amount <= stakes[holder] - fees + len(stakes)  # units, of the others' roundings

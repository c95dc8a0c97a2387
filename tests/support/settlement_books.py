"""Histories of stakes over the mirror, for tests of the books' invariants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from hypothesis import strategies as st

from core.agent.book import MAX_OUTCOMES, MAX_STAKE, MIN_OUTCOMES, MIN_STAKE, Book, Quote

MIN_WEIGHT, MAX_WEIGHT = 10_000, 2**32 - 1


def orders(low: int, high: int) -> st.SearchStrategy[int]:
    """Draw integers in [low, high] with every order of magnitude about as likely."""
    span = high - low

    def within(bits: int) -> st.SearchStrategy[int]:
        return st.integers(0, min(span, (1 << bits) - 1)).map(lambda x: low + x)

    return st.integers(0, span.bit_length()).flatmap(within)


@dataclass(frozen=True, slots=True)
class Step:
    before: Book
    after: Book
    outcome: int
    amount: int
    quote: Quote


@dataclass(frozen=True, slots=True)
class History:
    book: Book
    steps: tuple[Step, ...] = ()

    @classmethod
    def start(cls, weights: Sequence[int], fee_bps: int) -> Self:
        return cls(Book.empty(weights, fee_bps))

    def staked(self, outcome: int, amount: int) -> History:
        after, quote = self.book.staked(outcome, amount)
        return replace(self, book=after, steps=(*self.steps, Step(self.book, after, outcome, amount, quote)))

    def owed(self, winner: int | None) -> list[int]:
        return [self.book.owed(winner, step.outcome, step.amount, step.quote.shares) for step in self.steps]


@st.composite
def histories(draw: st.DrawFn, fee_bps: st.SearchStrategy[int] | None = None) -> History:
    outcomes = draw(st.integers(MIN_OUTCOMES, MAX_OUTCOMES))
    weights = draw(st.lists(orders(MIN_WEIGHT, MAX_WEIGHT), min_size=outcomes, max_size=outcomes))
    history = History.start(weights, draw(st.integers(0, 1_000) if fee_bps is None else fee_bps))
    amounts = draw(st.sampled_from((orders(MIN_STAKE, MAX_STAKE), orders(MIN_STAKE, 10**9))))
    for outcome, amount in draw(st.lists(st.tuples(st.integers(0, outcomes - 1), amounts), min_size=1, max_size=12)):
        history = history.staked(outcome, amount)
    return history

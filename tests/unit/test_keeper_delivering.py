"""The payouts due from a stock market, by the mirror of its contract, and their batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.stock.vested import (
    DOWN,
    UP,
    Moment,
    Position,
    Terms,
    VestedMarket,
    Vintage,
    match,
    offer,
    open_books,
    seed_vintage,
)
from keeper.payouts import Payout
from keeper.stock.deliver import Holding, payouts_due, residue_due, why_poke

DOLLAR = 10**6
SEED = 10 * DOLLAR
TERMS = Terms(
    market_id=1,
    opener="0x01",
    resolver="0x02",
    freeze_time=10_000,
    void_delay=259_200,
    fee_bps=200,
    kappa=30,
    seed_per_leg=SEED,
    min_entry=DOLLAR,
    max_entry=400 * DOLLAR,
    side_cap=2**48 - 1,
)
FRESH = VestedMarket(terms=TERMS, books=open_books(SEED))
BEFORE, AFTER = Moment(50, 9_000), Moment(60, 11_000)
ENTERED, CLOSED = 8_000, 10_500


def played() -> tuple[VestedMarket, dict[str, tuple[Position, Vintage]]]:
    """Seeds, then Ann offers 400 on UP (290 fit), then Ben 20 on DOWN; both vintages finalized."""
    market, before = offer(FRESH, UP, 400 * DOLLAR, 10)
    ann = Position(5, 1, "0xa", UP, 400 * DOLLAR, 10, before)
    market, first = match(market)
    market, before = offer(market, DOWN, 20 * DOLLAR, 11)
    ben = Position(6, 1, "0xb", DOWN, 20 * DOLLAR, 11, before)
    market, second = match(market)
    legs = seed_vintage(SEED)
    return market, {
        "up leg": (Position(2, 1, "0x1", UP, SEED, 0, 0), legs),
        "down leg": (Position(3, 1, "0x1", DOWN, SEED, 0, 0), legs),
        "ann": (ann, first),
        "ben": (ben, second),
    }


def dues_of(market: VestedMarket, held: dict[str, tuple[Position, Vintage]], now: Moment) -> list[Payout]:
    closed = CLOSED if market.settled else None
    return payouts_due(
        (Holding(market, position, vintage, 0, ENTERED, closed) for position, vintage in held.values()), now
    )


def owed(market: VestedMarket, held: dict[str, tuple[Position, Vintage]], now: Moment) -> dict[int, int]:
    return {due.id: due.amount for due in dues_of(market, held, now)}


def since(market: VestedMarket, held: dict[str, tuple[Position, Vintage]], now: Moment) -> dict[int, int]:
    return {due.id: due.due_at for due in dues_of(market, held, now)}


def test_before_the_end_only_refused_remainders_are_due() -> None:
    market, held = played()
    assert owed(market, held, BEFORE) == {5: 110 * DOLLAR}


def test_winners_and_refused_remainders_are_due() -> None:
    market, held = played()
    resolved = replace(market, winner=DOWN)
    found = owed(resolved, held, AFTER)
    assert set(found) == {3, 5, 6}  # the losing leg gets nothing; Ann lost, but her refused part is hers
    assert found[5] == 110 * DOLLAR
    assert found[6] == 20 * DOLLAR  # a buzzer entry: exactly once


def test_a_void_refunds_everything() -> None:
    market, held = played()
    assert owed(replace(market, voided=True), held, AFTER) == {
        2: SEED,
        3: SEED,
        5: 400 * DOLLAR,
        6: 20 * DOLLAR,
    }


def test_paid_positions_are_not_due() -> None:
    market, held = played()
    position, vintage = held["ann"]
    held["ann"] = (replace(position, refunded=True), vintage)
    assert owed(market, held, BEFORE) == {}
    assert owed(replace(market, voided=True), held, AFTER)[5] == 290 * DOLLAR


def test_remainders_are_due_from_entry_and_payouts_from_the_end() -> None:
    market, held = played()
    resolved = replace(market, winner=DOWN)
    assert since(market, held, BEFORE) == {5: ENTERED}
    assert since(resolved, held, AFTER) == {3: CLOSED, 5: ENTERED, 6: CLOSED}
    position, vintage = held["ann"]
    held["ann"] = (replace(position, refunded=True), vintage)
    assert since(replace(market, voided=True), held, AFTER)[5] == CLOSED


def test_remainders_and_settlements_are_separate_subjects() -> None:
    market, held = played()
    (before,) = dues_of(market, held, BEFORE)
    assert before.subject not in {due.subject for due in dues_of(replace(market, winner=DOWN), held, AFTER)}


@pytest.mark.parametrize(
    ("entered_at", "now", "poked"),
    [
        (8_900, Moment(50, 9_000), True),
        (8_941, Moment(50, 9_000), False),  # the next entry may do it
        (8_900, Moment(10, 9_000), False),  # its block still takes entries
    ],
)
def test_a_finished_vintage_is_finalized_after_a_wait(entered_at: int, now: Moment, poked: bool) -> None:
    market, _ = offer(FRESH, UP, DOLLAR, 10)
    assert (why_poke(market, entered_at, now) is not None) is poked
    assert why_poke(FRESH, entered_at, now) is None
    assert why_poke(replace(market, voided=True), entered_at, now) is None


def test_residue_waits_for_every_winner() -> None:
    market, _ = played()
    winners = market.books[UP].principal
    resolved = replace(market, winner=UP)
    assert residue_due(market) == 0
    assert residue_due(resolved) == 0
    paid = replace(resolved, paid_principal=winners, paid=market.pool - 3, fees=0)
    assert residue_due(paid) == 3
    assert residue_due(replace(paid, residue_claimed=3)) == 0
    assert residue_due(replace(paid, winner=None, voided=True)) == 0

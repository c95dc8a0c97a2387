"""The mirror's fees and views, and what it refuses; test_vested_properties holds it to the model."""

from __future__ import annotations

import pytest

from core.contracts.events.stock import (
    Delivered,
    Entered,
    FeesSwept,
    MarketCreated,
    PositionTransferred,
    ResidueClaimed,
    Resolved,
    VintageFinalized,
)
from core.stock.vested import (
    DOWN,
    MAX_SIDE_CAP,
    UP,
    Moment,
    Position,
    S,
    Terms,
    VestedMarket,
    Vintage,
    classic_payout,
    fee_on_gain,
    market_view,
    match,
    offer,
    open_books,
    position_view,
)
from core.stock.vested_fold import Diverged
from tests.support.stock_ledger import Ledger

TOKEN = 10**6
FREEZE = 1_000
AFTER = Moment(99, FREEZE)

A, B, X, OPENER, RESOLVER = (bytes([each]) * 20 for each in range(1, 6))


def market(kappa: int = 30, seed: int = 10 * TOKEN, fee_bps: int = 0) -> VestedMarket:
    terms = Terms(1, OPENER, RESOLVER, FREEZE, 3_600, fee_bps, kappa, seed, 1, 2**48 - 1, MAX_SIDE_CAP)
    return VestedMarket(terms, open_books(seed))


def enter(m: VestedMarket, outcome: int, amount: int, block: int) -> tuple[VestedMarket, Vintage, Position]:
    """One entry, alone in its block, and the vintage matched."""
    m, before = offer(m, outcome, amount, block)
    m, vintage = match(m)
    return m, vintage, Position(block, 1, "bettor", outcome, amount, block, before)


def test_fees_are_of_gains_only_and_round_down() -> None:
    assert fee_on_gain(149, 100, 200) == 0
    assert fee_on_gain(150, 100, 200) == 1
    assert fee_on_gain(100, 100, 10_000) == 0
    assert classic_payout(20, 170, 80, 0) == 42
    assert classic_payout(20, 170, 80, 1_000) == 40
    assert classic_payout(0, 170, 0, 0) == 0


def test_position_views_and_market_view() -> None:
    m = market(fee_bps=200)
    m, first, early = enter(m, UP, 400 * TOKEN, 1)
    m, second, late = enter(m, DOWN, 30 * TOKEN, 2)
    views = [position_view(m, early, first, Moment(3, 0)), position_view(m, late, second, Moment(3, 0))]
    assert [(each.offered, each.accepted) for each in views] == [(400 * TOKEN, 290 * TOKEN), (30 * TOKEN, 30 * TOKEN)]
    assert [(each.settlement.total, each.payout) for each in views] == [(110 * TOKEN, None), (0, None)]
    assert views[1].accrued == 30 * TOKEN
    # 290 of the 300 units on UP, and the 30 units were promised to all of them alike.
    assert views[0].accrued == 319 * TOKEN
    seen = market_view(m, Moment(3, 0))
    assert (seen.pool, seen.vintage_block) == (340 * TOKEN, None)
    assert [(book.vested, book.demand) for book in seen.books] == [(40 * TOKEN, 0), (300 * TOKEN, 0)]


def test_matching_needs_a_vintage_and_offers_need_the_last_one_matched() -> None:
    with pytest.raises(ValueError, match="no vintage to match"):
        match(market())
    m, _ = offer(market(), UP, 1, 5)
    with pytest.raises(ValueError, match="vintage 5 is not matched"):
        offer(m, UP, 1, 6)


# ---------------------------------------------------------------- events

CREATED = MarketCreated(1, OPENER, RESOLVER, FREEZE, 3_600, 200, 30, 10, 1, 100, 1_000)
SEEDS = (Entered(1, 1 << 32, OPENER, UP, 10, 0), Entered(1, 1 << 32 | 1, OPENER, DOWN, 10, 0))


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ((CREATED,), "created twice"),
        ((Entered(2, 2 << 32, A, UP, 5, 9),), "market 2 was never created"),
        ((Entered(1, 1 << 32, A, UP, 5, 9),), "entered twice"),
        ((Entered(1, 5, A, 2, 5, 9),), "outcome 2"),
        ((Entered(1, 5, A, UP, 5, 0),), "not the market's seed"),
        ((Entered(1, 5, A, UP, 5, 9), Entered(1, 6, A, UP, 5, 10)), "before 9 was finalized"),
        ((VintageFinalized(1, 9, 0, 0, 0, 0, S, S),), "not the pending one"),
        ((Entered(1, 5, A, UP, 5, 9), VintageFinalized(1, 9, 5, 0, 4, 0, S, S)), "the chain states"),
        ((Entered(1, 5, A, UP, 5, 9), Resolved(1, UP)), "with a vintage pending"),
        ((Resolved(1, UP), Resolved(1, DOWN)), "closed twice"),
        ((Resolved(1, UP), Entered(1, 5, A, UP, 5, 9)), "entered a settled market"),
        ((FeesSwept(1),), "1 of fees were swept"),
        ((Delivered(9, A, 1, 0, 0),), "never entered"),
        (
            (
                Resolved(1, UP),
                Delivered(1 << 32, X, 20, 0, 0),
            ),
            f"paid to 0x{X.hex()}, not to 0x{OPENER.hex()}",
        ),
        (
            (
                Resolved(1, UP),
                Delivered(1 << 32, OPENER, 21, 0, 0),
            ),
            "it is due",
        ),
        ((PositionTransferred(1 << 32, X, B),), f"was transferred by 0x{X.hex()}, who does not own it"),
        ((ResidueClaimed(1, 1),), "residue 1 was claimed"),
    ],
)
def test_events_that_do_not_follow_are_refused(events: tuple, complaint: str) -> None:
    ledger = Ledger()
    for each in (CREATED, *SEEDS, *events[:-1]):
        ledger.apply(each)
    with pytest.raises(Diverged, match=complaint):
        ledger.apply(events[-1])

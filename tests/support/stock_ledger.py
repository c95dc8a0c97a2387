"""Every book, vintage and position of `VestedMarkets` rebuilt from its events alone. Tests compare the indexer's rows
with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from core.contracts.events.stock import (
    Delivered,
    Entered,
    FeesSwept,
    MarketCreated,
    PositionTransferred,
    ResidueClaimed,
    Resolved,
    VintageFinalized,
    Voided,
)
from core.stock.vested import SEED, Position, VestedMarket, Vintage, offer, seed_vintage
from core.stock.vested_fold import (
    Diverged,
    check_delivery,
    check_entry,
    close_market,
    market_created,
    match_vintage,
    new_owner,
    residue_claimed,
)

Event: TypeAlias = (
    MarketCreated
    | Entered
    | VintageFinalized
    | Resolved
    | Voided
    | Delivered
    | PositionTransferred
    | ResidueClaimed
    | FeesSwept
)
"""The events that change a book, a vintage or a position."""


def entered(market: VestedMarket, e: Entered) -> tuple[VestedMarket, Position]:
    pending = None if market.vintage is None else market.vintage.number
    check_entry(e, market.terms.seed_per_leg, pending, settled=market.settled)
    before = 0
    if e.vintage != SEED:
        market, before = offer(market, e.outcome, e.offered, e.vintage)
    return market, Position(e.position_id, e.market_id, e.owner, e.outcome, e.offered, e.vintage, before)


def delivered(
    market: VestedMarket, position: Position, vintage: Vintage, e: Delivered
) -> tuple[VestedMarket, Position]:
    due = check_delivery(market, position, vintage, e)
    pays, refunds = e.payout > 0, e.refund > 0
    accepted = position.offered - due.refund
    position = replace(
        position,
        claimed=position.claimed or pays,
        refunded=position.refunded or refunds,
        payout=position.payout + e.payout,
        fee=position.fee + e.fee,
        refund=position.refund + e.refund,
    )
    market = replace(
        market,
        paid_principal=market.paid_principal + (accepted if pays else 0),
        paid=market.paid + e.payout,
        fees=market.fees + e.fee,
        refunded=market.refunded + e.refund,
    )
    return market, position


class Ledger:
    """Every market, vintage and position after the events so far. Its values are frozen."""

    def __init__(self) -> None:
        self.markets: dict[int, VestedMarket] = {}
        self.vintages: dict[tuple[int, int], Vintage] = {}
        """By market and block number; the seed's is 0. A pending vintage is here too, unmatched."""
        self.positions: dict[int, Position] = {}
        self.entries: dict[int, list[int]] = {}
        """Each market's position ids in the order of entry, the seed first."""
        self.fees_swept = 0

    @property
    def fees_accrued(self) -> int:
        return sum(market.fees for market in self.markets.values()) - self.fees_swept

    def vintage_of(self, position: Position) -> Vintage:
        return self.vintages[position.market_id, position.vintage]

    def apply(self, e: Event) -> None:
        match e:
            case MarketCreated():
                _require(e.market_id not in self.markets, f"market {e.market_id} was created twice")
                self.markets[e.market_id] = market_created(e)
                self.vintages[e.market_id, SEED] = seed_vintage(e.seed_per_leg)
                self.entries[e.market_id] = []
            case Entered():
                _require(e.position_id not in self.positions, f"position {e.position_id} was entered twice")
                market, position = entered(self._market(e.market_id), e)
                self.markets[e.market_id], self.positions[e.position_id] = market, position
                self.entries[e.market_id].append(e.position_id)
                if market.vintage is not None:
                    self.vintages[e.market_id, e.vintage] = market.vintage
            case VintageFinalized():
                self.markets[e.market_id], vintage = match_vintage(self._market(e.market_id), e)
                self.vintages[e.market_id, e.vintage] = vintage
            case Resolved() | Voided():
                self.markets[e.market_id] = close_market(self._market(e.market_id), e)
            case Delivered():
                position = self._position(e.position_id)
                market, position = delivered(self.markets[position.market_id], position, self.vintage_of(position), e)
                self.markets[position.market_id], self.positions[e.position_id] = market, position
            case PositionTransferred():
                position = self._position(e.position_id)
                self.positions[e.position_id] = replace(position, owner=new_owner(position.owner, e))
            case ResidueClaimed():
                self.markets[e.market_id] = residue_claimed(self._market(e.market_id), e)
            case FeesSwept():
                _require(e.amount <= self.fees_accrued, f"{e.amount} of fees were swept, {self.fees_accrued} taken")
                self.fees_swept += e.amount

    def _market(self, market_id: int) -> VestedMarket:
        _require(market_id in self.markets, f"market {market_id} was never created")
        return self.markets[market_id]

    def _position(self, position_id: int) -> Position:
        _require(position_id in self.positions, f"position {position_id} was never entered")
        return self.positions[position_id]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Diverged(otherwise)

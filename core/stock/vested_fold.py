"""Rebuilds every book, vintage and position of `VestedMarkets` from its events alone, exactly.

Feed the decoded events in chain order to a `Ledger`. What an event states and what follows from the events before it
must agree; where they do not, logs are missing, out of order or not this contract's, and `Diverged` says which. Amounts
are token units. `DeliveryFailed` and `EntriesPaused` change no book: `is_folded` tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeGuard

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
from core.hexadecimal import hex_of
from core.stock.vested import (
    DOWN,
    UP,
    Moment,
    Position,
    Settlement,
    Terms,
    VestedMarket,
    Vintage,
    match,
    offer,
    open_books,
    residue,
    seed_vintage,
    settlement,
)
from core.stock.vested import SEED as SEED_VINTAGE

AFTERWARDS: Final = Moment(0, 0)
"""No vintage is of block 0, so at this moment every pending one is finished: a refund may be paid before its vintage is
finalized on chain, and only once it is finished."""


class Diverged(ValueError):
    """The refusal of an event that does not follow from the events before it."""


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


# ---------------------------------------------------------------- one market, one event


def created(e: MarketCreated) -> VestedMarket:
    terms = Terms(
        market_id=e.market_id,
        opener=e.opener,
        resolver=e.resolver,
        freeze_time=e.freeze_time,
        void_delay=e.void_delay,
        fee_bps=e.fee_bps,
        kappa=e.kappa,
        seed_per_leg=e.seed_per_leg,
        min_entry=e.min_entry,
        max_entry=e.max_entry,
        side_cap=e.side_cap,
    )
    return VestedMarket(terms, open_books(e.seed_per_leg))


def entered(market: VestedMarket, e: Entered) -> tuple[VestedMarket, Position]:
    pending = None if market.vintage is None else market.vintage.number
    check_entry(e, market.terms.seed_per_leg, pending, settled=market.settled)
    before = 0
    if e.vintage != SEED_VINTAGE:
        market, before = offer(market, e.outcome, e.offered, e.vintage)
    return market, Position(e.position_id, e.market_id, e.owner, e.outcome, e.offered, e.vintage, before)


def check_entry(e: Entered, seed_per_leg: int, pending_vintage: int | None, *, settled: bool) -> None:
    """Refuse an entry that its market cannot have taken."""
    if settled:
        raise Diverged(f"position {e.position_id} entered a settled market")
    if e.outcome not in (UP, DOWN):
        raise Diverged(f"position {e.position_id} is on outcome {e.outcome}")
    if e.vintage == SEED_VINTAGE:
        if e.offered != seed_per_leg:
            raise Diverged(f"seed position {e.position_id} is not the market's seed")
    elif pending_vintage is not None and pending_vintage != e.vintage:
        raise Diverged(f"position {e.position_id} entered vintage {e.vintage} before {pending_vintage} was finalized")


def finalized(market: VestedMarket, e: VintageFinalized) -> tuple[VestedMarket, Vintage]:
    """Works the vintage out again and holds the event to it."""
    pending = market.vintage
    _require(
        pending is not None and pending.number == e.vintage,
        f"market {e.market_id}: vintage {e.vintage} was finalized, but is not the pending one",
    )
    after, vintage = match(market)
    stated = Vintage(
        e.vintage, (e.offered_up, e.offered_down), (e.accepted_up, e.accepted_down), (e.acc_up, e.acc_down)
    )
    _require(vintage == stated, f"market {e.market_id}: the chain states {stated}, the entries give {vintage}")
    return after, vintage


def closed(market: VestedMarket, e: Resolved | Voided) -> VestedMarket:
    _require(
        market.vintage is None and not market.settled,
        f"market {e.market_id} was closed with a vintage pending, or closed twice",
    )
    return replace(market, winner=e.winner) if isinstance(e, Resolved) else replace(market, voided=True)


def delivered(
    market: VestedMarket, position: Position, vintage: Vintage, e: Delivered
) -> tuple[VestedMarket, Position]:
    due = due_of(market, position, vintage, e)
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


def due_of(market: VestedMarket, position: Position, vintage: Vintage, e: Delivered) -> Settlement:
    """Return what the position is due, which the delivery must agree with."""
    if position.owner != e.owner:
        raise Diverged(f"position {e.position_id} was paid to {hex_of(e.owner)}, not to {hex_of(position.owner)}")
    due = settlement(market, position, vintage, AFTERWARDS)
    if (e.payout and (position.claimed or (e.payout, e.fee) != (due.net, due.fee))) or (
        e.refund and (position.refunded or e.refund != due.refund)
    ):
        raise Diverged(f"position {e.position_id} was paid {e.payout} (fee {e.fee}) and {e.refund}; it is due {due}")
    return due


def new_owner(owner: bytes, e: PositionTransferred) -> bytes:
    """Return the owner after a transfer, which only the owner before can have made."""
    if owner != e.sender:
        raise Diverged(f"position {e.position_id} was not {hex_of(e.sender)}'s to transfer")
    return e.to


def residue_claimed(market: VestedMarket, e: ResidueClaimed) -> VestedMarket:
    _require(
        market.residue_claimed == 0 and residue(market) == e.amount,
        f"market {e.market_id}: residue {e.amount} was claimed, {residue(market)} follows from its payouts",
    )
    return replace(market, residue_claimed=e.amount)


def is_folded(event: Any) -> TypeGuard[Event]:
    return isinstance(event, Event)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Diverged(otherwise)


# ---------------------------------------------------------------- all of them


class Ledger:
    """Every market, vintage and position after the events applied so far. The values in it are frozen."""

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
        """Fees taken and not swept yet."""
        return sum(market.fees for market in self.markets.values()) - self.fees_swept

    def vintage_of(self, position: Position) -> Vintage:
        return self.vintages[position.market_id, position.vintage]

    def apply(self, e: Event) -> None:
        match e:
            case MarketCreated():
                _require(e.market_id not in self.markets, f"market {e.market_id} was created twice")
                self.markets[e.market_id] = created(e)
                self.vintages[e.market_id, SEED_VINTAGE] = seed_vintage(e.seed_per_leg)
                self.entries[e.market_id] = []
            case Entered():
                _require(e.position_id not in self.positions, f"position {e.position_id} was entered twice")
                market, position = entered(self._market(e.market_id), e)
                self.markets[e.market_id], self.positions[e.position_id] = market, position
                self.entries[e.market_id].append(e.position_id)
                if market.vintage is not None:
                    self.vintages[e.market_id, e.vintage] = market.vintage
            case VintageFinalized():
                self.markets[e.market_id], vintage = finalized(self._market(e.market_id), e)
                self.vintages[e.market_id, e.vintage] = vintage
            case Resolved() | Voided():
                self.markets[e.market_id] = closed(self._market(e.market_id), e)
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

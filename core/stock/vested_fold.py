"""Rebuilds every book, vintage and position of `VestedMarkets` from its events alone, exactly.

Feed the events in chain order to a `Ledger`, or all at once to `fold`. What an event states and what follows from the
events before it must agree; where they do not, logs are missing, out of order or not this contract's, and `Diverged`
says which. Amounts are token units. `DeliveryFailed` and `EntriesPaused` change no book and are not folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from core.stock.vested import (
    DOWN,
    UP,
    Market,
    Moment,
    Position,
    Terms,
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
    """An event does not follow from the events before it."""


@dataclass(frozen=True, slots=True)
class MarketCreated:
    market_id: int
    opener: str
    resolver: str
    freeze_time: int
    void_delay: int
    fee_bps: int
    kappa: int
    seed_per_leg: int
    min_entry: int
    max_entry: int


@dataclass(frozen=True, slots=True)
class Entered:
    """Also sent for the two seed positions, with vintage 0."""

    market_id: int
    position_id: int
    owner: str
    outcome: int
    offered: int
    vintage: int


@dataclass(frozen=True, slots=True)
class VintageFinalized:
    market_id: int
    vintage: int
    offered_up: int
    offered_down: int
    accepted_up: int
    accepted_down: int
    acc_up: int
    acc_down: int


@dataclass(frozen=True, slots=True)
class Resolved:
    market_id: int
    winner: int


@dataclass(frozen=True, slots=True)
class Voided:
    market_id: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """`payout`, which is after `fee`, and `refund` were sent to the owner."""

    position_id: int
    owner: str
    payout: int
    fee: int
    refund: int


@dataclass(frozen=True, slots=True)
class PositionTransferred:
    position_id: int
    sender: str
    to: str


@dataclass(frozen=True, slots=True)
class ResidueClaimed:
    market_id: int
    amount: int


@dataclass(frozen=True, slots=True)
class FeesSwept:
    amount: int


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

FOLDED: Final[Mapping[str, type[Event]]] = {
    kind.__name__: kind
    for kind in (
        MarketCreated,
        Entered,
        VintageFinalized,
        Resolved,
        Voided,
        Delivered,
        PositionTransferred,
        ResidueClaimed,
        FeesSwept,
    )
}
"""The events that change the ledger, by their name in the ABI."""


def event(name: str, arguments: Mapping[str, Any]) -> Event:
    """The event `name` of the ABI with its decoded arguments, by their ABI names."""
    renamed = {"sender" if key == "from" else _snake(key): value for key, value in arguments.items()}
    return FOLDED[name](**renamed)


def _snake(camel: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda upper: "_" + upper.group().lower(), camel)


# ---------------------------------------------------------------- one market, one event


def created(e: MarketCreated) -> Market:
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
    )
    return Market(terms, open_books(e.seed_per_leg))


def entered(market: Market, e: Entered) -> tuple[Market, Position]:
    _require(not market.settled, f"position {e.position_id} entered a settled market")
    before = 0
    if e.vintage == SEED_VINTAGE:
        _require(e.offered == market.terms.seed_per_leg, f"seed position {e.position_id} is not the market's seed")
    else:
        _require(
            market.vintage is None or market.vintage.number == e.vintage,
            f"position {e.position_id} entered vintage {e.vintage} before the one ahead of it was finalized",
        )
        market, before = offer(market, e.outcome, e.offered, e.vintage)
    return market, Position(e.position_id, e.market_id, e.owner, e.outcome, e.offered, e.vintage, before)


def finalized(market: Market, e: VintageFinalized) -> tuple[Market, Vintage]:
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


def closed(market: Market, e: Resolved | Voided) -> Market:
    _require(
        market.vintage is None and not market.settled,
        f"market {e.market_id} was closed with a vintage pending, or closed twice",
    )
    return replace(market, winner=e.winner) if isinstance(e, Resolved) else replace(market, voided=True)


def delivered(market: Market, position: Position, vintage: Vintage, e: Delivered) -> tuple[Market, Position]:
    _require(position.owner == e.owner, f"position {e.position_id} was paid to {e.owner}, not to {position.owner}")
    due = settlement(market, position, vintage, AFTERWARDS)
    pays, refunds = e.payout > 0, e.refund > 0
    _require(
        (not pays or (not position.claimed and (e.payout, e.fee) == (due.net, due.fee)))
        and (not refunds or (not position.refunded and e.refund == due.refund)),
        f"position {e.position_id} was paid {e.payout} (fee {e.fee}) and {e.refund}; it is due {due}",
    )
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


def residue_claimed(market: Market, e: ResidueClaimed) -> Market:
    _require(
        market.residue_claimed == 0 and residue(market) == e.amount,
        f"market {e.market_id}: residue {e.amount} was claimed, {residue(market)} follows from its payouts",
    )
    return replace(market, residue_claimed=e.amount)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Diverged(otherwise)


# ---------------------------------------------------------------- all of them


class Ledger:
    """Every market, vintage and position after the events applied so far. The values in it are frozen."""

    def __init__(self) -> None:
        self.markets: dict[int, Market] = {}
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
                _require(e.outcome in (UP, DOWN), f"position {e.position_id} is on outcome {e.outcome}")
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
                _require(position.owner == e.sender, f"position {e.position_id} was not {e.sender}'s to transfer")
                self.positions[e.position_id] = replace(position, owner=e.to)
            case ResidueClaimed():
                self.markets[e.market_id] = residue_claimed(self._market(e.market_id), e)
            case FeesSwept():
                _require(e.amount <= self.fees_accrued, f"{e.amount} of fees were swept, {self.fees_accrued} taken")
                self.fees_swept += e.amount

    def _market(self, market_id: int) -> Market:
        _require(market_id in self.markets, f"market {market_id} was never created")
        return self.markets[market_id]

    def _position(self, position_id: int) -> Position:
        _require(position_id in self.positions, f"position {position_id} was never entered")
        return self.positions[position_id]


def fold(events: Iterable[Event]) -> Ledger:
    """The ledger after `events`, which are all of the contract's, in chain order."""
    ledger = Ledger()
    for e in events:
        ledger.apply(e)
    return ledger

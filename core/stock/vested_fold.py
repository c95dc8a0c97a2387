"""The effect of each `VestedMarkets` event on a market's books.

Every event must agree with the events before it. If it does not, logs are missing, out of order or from another
contract, and `Diverged` is raised. Amounts are token units. `indexer.fold.stock` maintains the rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from core.contracts.events.stock import (
    Delivered,
    Entered,
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
    VestedMarket,
    Vintage,
    match,
    open_books,
    residue,
    settlement,
)
from core.stock.vested import SEED as SEED_VINTAGE

AFTERWARDS: Final = Moment(0, 0)
"""A moment at which every pending vintage is finished, since no vintage has block 0. A refund may be paid before its
vintage is finalized on chain, but only once it is finished."""


class Diverged(ValueError):
    """An event contradicts the events before it."""


def market_created(e: MarketCreated) -> VestedMarket:
    return VestedMarket(e, open_books(e.seed_per_leg))


def check_entry(e: Entered, seed_per_leg: int, pending_vintage: int | None, *, settled: bool) -> None:
    """Raise Diverged if the market cannot have accepted the entry."""
    if settled:
        raise Diverged(f"position {e.position_id} entered a settled market")
    if e.outcome not in (UP, DOWN):
        raise Diverged(f"position {e.position_id} is on the unknown outcome {e.outcome}")
    if e.vintage == SEED_VINTAGE:
        if e.offered != seed_per_leg:
            raise Diverged(f"seed position {e.position_id} is not the market's seed")
    elif pending_vintage is not None and pending_vintage != e.vintage:
        raise Diverged(f"position {e.position_id} entered vintage {e.vintage} before {pending_vintage} was finalized")


def match_vintage(market: VestedMarket, e: VintageFinalized) -> tuple[VestedMarket, Vintage]:
    """Compute the matched vintage, and check the event against it."""
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


def close_market(market: VestedMarket, e: Resolved | Voided) -> VestedMarket:
    _require(
        market.vintage is None and not market.settled,
        f"market {e.market_id} was closed with a vintage pending, or closed twice",
    )
    return replace(market, winner=e.winner) if isinstance(e, Resolved) else replace(market, voided=True)


def check_delivery(market: VestedMarket, position: Position, vintage: Vintage, e: Delivered) -> Settlement:
    """Return the amounts due to the position. Raise Diverged if the delivery paid another owner or other amounts."""
    if position.owner != e.owner:
        raise Diverged(f"position {e.position_id} was paid to {hex_of(e.owner)}, not to {hex_of(position.owner)}")
    due = settlement(market, position, vintage, AFTERWARDS)
    if (e.payout and (position.claimed or (e.payout, e.fee) != (due.net, due.fee))) or (
        e.refund and (position.refunded or e.refund != due.refund)
    ):
        raise Diverged(f"position {e.position_id} was paid {e.payout} (fee {e.fee}) and {e.refund}; it is due {due}")
    return due


def new_owner(owner: bytes, e: PositionTransferred) -> bytes:
    """Return the new owner of a transferred position. Raise Diverged if the transfer was not made by `owner`."""
    if owner != e.sender:
        raise Diverged(f"position {e.position_id} was transferred by {hex_of(e.sender)}, who does not own it")
    return e.to


def residue_claimed(market: VestedMarket, e: ResidueClaimed) -> VestedMarket:
    _require(
        market.residue_claimed == 0 and residue(market) == e.amount,
        f"market {e.market_id}: residue {e.amount} was claimed, but its payouts leave {residue(market)}",
    )
    return replace(market, residue_claimed=e.amount)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Diverged(otherwise)

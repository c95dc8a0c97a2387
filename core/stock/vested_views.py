"""The figures of a vested market at one `Moment`, as the contract's views return them."""

from __future__ import annotations

from dataclasses import dataclass

from core.stock.vested import (
    DOWN,
    UP,
    Moment,
    Pair,
    Position,
    Settlement,
    VestedMarket,
    Vintage,
    accepted_of,
    accrued,
    as_of,
    capacity,
    classic,
    current_vintage,
    demand,
    headroom,
    live,
    settlement,
)


@dataclass(frozen=True, slots=True)
class BookView:
    principal: int
    acc: int
    capacity: int
    vested: int
    demand: int
    live: int


@dataclass(frozen=True, slots=True)
class MarketView:
    books: tuple[BookView, BookView]
    headroom: Pair
    vintage_block: int | None
    """The block of the vintage that is open to entries, if any."""
    pool: int
    """Accepted on both outcomes, including the seed and a finished vintage."""
    pending: Pair
    """Offered in the open vintage."""


@dataclass(frozen=True, slots=True)
class PositionView:
    """Until the position's vintage is finished, `accepted` and `entry_acc` are None and `refused` is 0."""

    offered: int
    accepted: int | None
    refused: int
    entry_acc: int | None
    accrued: int
    payout: int | None
    """After settlement: the payout after the fee; 0 for a loser."""
    classic_payout: int | None
    """After a resolution: an ordinary pool's payout after the same fee."""
    settlement: Settlement
    paid_out: int | None
    """The part of `payout` that was sent; None if nothing was sent."""
    open: bool


def market_view(market: VestedMarket, now: Moment) -> MarketView:
    seen, _ = as_of(market, now)
    offered, closing = demand(seen), live(market, now)
    up, down = (
        BookView(
            principal=seen.books[side].principal,
            acc=seen.books[side].acc,
            capacity=capacity(seen, side),
            vested=seen.books[1 - side].principal,
            demand=offered[side],
            live=closing[side],
        )
        for side in (UP, DOWN)
    )
    return MarketView(
        books=(up, down),
        headroom=headroom(market, now),
        vintage_block=seen.vintage.number if seen.vintage is not None else None,
        pool=seen.pool,
        pending=offered,
    )


def position_view(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> PositionView:
    seen, matched = as_of(market, now)
    vintage = current_vintage(vintage, matched)
    accepted = accepted_of(position, vintage)
    due = settlement(market, position, vintage, now)
    return PositionView(
        offered=position.offered,
        accepted=accepted,
        refused=0 if accepted is None else position.offered - accepted,
        entry_acc=None if vintage.entry_acc is None else vintage.entry_acc[position.outcome],
        accrued=accrued(market, position, vintage, now),
        payout=due.net if market.settled else None,
        classic_payout=classic(seen, position, vintage),
        settlement=due,
        paid_out=position.payout if position.claimed else None,
        open=not market.settled,
    )

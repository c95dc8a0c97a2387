"""Checks signed trades before they are written: their signatures, their markets, and whether they were already made.

Trades that arrive together are checked together: signatures in a thread off the event loop, the rest with one round
trip to the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core.cup import books, messages, trading
from core.cup.books import PaperMarket
from core.cup.trading import PaperOrder, PlacedTrade
from core.db.engine import ConnectionPool


@dataclass(frozen=True, slots=True)
class SignedTrade:
    """A trade as received: an order with its signature, and the message that the wallet must have signed."""

    order: PaperOrder
    message: str


@dataclass(frozen=True, slots=True)
class CheckedTrade:
    """The result of checking a trade: `market` is None for an unknown slug, `earlier` is the trade with the same id."""

    signed: bool
    market: PaperMarket | None
    earlier: PlacedTrade | None


async def check_trades(pool: ConnectionPool, trades: Sequence[SignedTrade]) -> list[CheckedTrade | Exception]:
    """Check several signed trades at once, as a `Batcher` gathers them."""
    signed, (markets, earlier) = await asyncio.gather(asyncio.to_thread(_signed, trades), _read(pool, trades))
    return [
        CheckedTrade(right, markets.get(trade.order.slug), earlier.get(trade.order.trade_id))
        for trade, right in zip(trades, signed, strict=True)
    ]


async def _read(
    pool: ConnectionPool, trades: Sequence[SignedTrade]
) -> tuple[dict[str, PaperMarket], dict[str, PlacedTrade]]:
    async with pool.connection() as connection:
        markets = await books.find_all(connection, list({trade.order.slug for trade in trades}))
        return markets, await trading.placed(connection, [trade.order.trade_id for trade in trades])


def _signed(trades: Sequence[SignedTrade]) -> list[bool]:
    return [messages.signer_of(trade.message, trade.order.signature) == trade.order.wallet for trade in trades]

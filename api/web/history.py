"""What charts need beyond the present: a feed's readings, and a market's books after each batch. Read from the index.

Kept per market until it changes; while the database is away the last is shown, or a chart without its past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.caching import SizedCache
from api.database import DATABASE_ERRORS
from core.db.schema.index_shared import oracle_round
from core.db.schema.index_stock import stock_position, stock_vintage
from core.hexadecimal import bytes_of
from core.log import get_logger

log = get_logger(__name__)

# Of all pasts together. An empty one counts as so many.
MAX_POINTS, POINTS_EACH = 50_000, 200
MAX_READINGS = 600


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch: when its last entry came, what was accepted, the accumulators (times 1e18) after it."""

    vintage: int
    at: int
    accepted: tuple[int, int]
    acc: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MarketPast:
    """A market's readings and batches. Readings are (Unix seconds, answer of 8 decimals), oldest first; batches
    likewise, the seed's first."""

    readings: tuple[tuple[int, int], ...] = ()
    batches: tuple[Batch, ...] = ()


class ChartHistory:
    """The pasts of stock markets that charts are drawn from, read again when their stamp differs."""

    def __init__(self, engine: AsyncEngine, chain_id: int) -> None:
        self._engine = engine
        self._chain_id = chain_id
        self._pasts: SizedCache[str, tuple[Hashable, MarketPast]] = SizedCache(
            MAX_POINTS, lambda kept: POINTS_EACH + len(kept[1].readings) + len(kept[1].batches)
        )

    async def get(self, market_id: str, feed: str, start: int, end: int, stamp: Hashable) -> MarketPast:
        """Return a market's past from `start` on; read it again when `stamp` is not the one it was read at."""
        kept = self._pasts.get(market_id)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            past = await self._read(int(market_id), bytes_of(feed), start, end)
        except DATABASE_ERRORS as error:
            log.warning("failed to read the past of a market", action="pages.index_unreadable", why=error)
            return MarketPast() if kept is None else kept[1]
        self._pasts[market_id] = (stamp, past)
        return past

    async def _read(self, market_id: int, feed: bytes, start: int, end: int) -> MarketPast:
        mine = (oracle_round.c.chain_id == self._chain_id) & (oracle_round.c.feed == feed)
        at = oracle_round.c.updated_at
        newest_first = select(at, oracle_round.c.answer).where(mine).order_by(at.desc())
        before = newest_first.where(at <= start).limit(1)
        within = newest_first.where(at > start, at <= end).limit(MAX_READINGS)
        entered = (
            select(stock_position.c.vintage, func.max(stock_position.c.entered_at).label("at"))
            .where(stock_position.c.market_id == market_id)
            .group_by(stock_position.c.vintage)
            .subquery()
        )
        batches = (
            select(stock_vintage, entered.c.at)
            .join(entered, entered.c.vintage == stock_vintage.c.vintage)
            .where(stock_vintage.c.market_id == market_id, stock_vintage.c.accepted_up.is_not(None))
            .order_by(stock_vintage.c.vintage)
        )
        async with asyncio.timeout(5), self._engine.connect() as connection:
            first = [(row.updated_at, row.answer) for row in await connection.execute(before)]
            rest = [(row.updated_at, row.answer) for row in await connection.execute(within)]
            matched = [
                Batch(
                    row.vintage,
                    row.at,
                    (row.accepted_up, row.accepted_down),
                    (row.entry_acc_up, row.entry_acc_down),
                )
                for row in await connection.execute(batches)
            ]
        return MarketPast(tuple(first + rest[::-1]), tuple(matched))

"""Reads the history that charts need from the index: a feed's readings, and a market's books after each batch.

Cached per market until it changes. While the database is unavailable the last history is used, or none.
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

# The most points cached for all markets. Each market counts as POINTS_EACH more.
MAX_POINTS, POINTS_EACH = 50_000, 200
MAX_READINGS = 600


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch: the time of its last entry, the accepted amounts, and the accumulators (times 1e18) after
    it."""

    vintage: int
    at: int
    accepted: tuple[int, int]
    acc: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MarketPast:
    """A market's readings, as (Unix seconds, answer with 8 decimals), and batches; both oldest first, the seed's batch
    included."""

    readings: tuple[tuple[int, int], ...] = ()
    batches: tuple[Batch, ...] = ()


class ChartHistory:
    """A cache of the history of stock markets, for charts."""

    def __init__(self, engine: AsyncEngine, chain_id: int) -> None:
        self._engine = engine
        self._chain_id = chain_id
        self._pasts: SizedCache[str, tuple[Hashable, MarketPast]] = SizedCache(
            MAX_POINTS, lambda kept: POINTS_EACH + len(kept[1].readings) + len(kept[1].batches)
        )

    async def get(self, market_id: str, feed: str, start: int, end: int, stamp: Hashable) -> MarketPast:
        """Return a market's history from `start` on, reading it again if `stamp` has changed."""
        cached = self._pasts.get(market_id)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        try:
            past = await self._read(int(market_id), bytes_of(feed), start, end)
        except DATABASE_ERRORS as error:
            log.warning("failed to read the history of a market", action="pages.index_unreadable", why=error)
            return MarketPast() if cached is None else cached[1]
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

"""The readings of a feed that a market's price chart is drawn from, read from the index.

Kept per market until it changes; while the database is away the last are shown, or a chart without its past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.cache import SizedCache
from api.database import DATABASE_ERRORS
from core.db.schema.index_shared import oracle_round
from core.hexadecimal import bytes_of
from core.log import get_logger

log = get_logger(__name__)

# Of all markets together. One without any counts as so many.
MAX_POINTS, POINTS_EACH = 50_000, 200
MAX_READINGS = 600

# Unix seconds, answer of 8 decimals.
Reading = tuple[int, int]


class FeedHistory:
    """The readings in the windows of stock markets, read again when their stamp differs."""

    def __init__(self, engine: AsyncEngine, chain_id: int) -> None:
        self._engine = engine
        self._chain_id = chain_id
        self._kept: SizedCache[str, tuple[Hashable, tuple[Reading, ...]]] = SizedCache(
            MAX_POINTS, lambda kept: POINTS_EACH + len(kept[1])
        )

    async def get(self, market_id: str, feed: str, start: int, end: int, stamp: Hashable) -> tuple[Reading, ...]:
        """Return a market's readings, the oldest first: the one in effect at `start`, and those until `end`."""
        kept = self._kept.get(market_id)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            readings = await self._read(bytes_of(feed), start, end)
        except DATABASE_ERRORS as error:
            log.warning("failed to read the past of a market", action="pages.index_unreadable", why=error)
            return () if kept is None else kept[1]
        self._kept[market_id] = (stamp, readings)
        return readings

    async def _read(self, feed: bytes, start: int, end: int) -> tuple[Reading, ...]:
        mine = (oracle_round.c.chain_id == self._chain_id) & (oracle_round.c.feed == feed)
        at = oracle_round.c.updated_at
        newest_first = select(at, oracle_round.c.answer).where(mine).order_by(at.desc())
        before = newest_first.where(at <= start).limit(1)
        within = newest_first.where(at > start, at <= end).limit(MAX_READINGS)
        async with asyncio.timeout(5), self._engine.connect() as connection:
            first = [(row.updated_at, row.answer) for row in await connection.execute(before)]
            rest = [(row.updated_at, row.answer) for row in await connection.execute(within)]
        return tuple(first + rest[::-1])

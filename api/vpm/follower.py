"""Keeps the index in memory: wakes on the indexer's notifications, reads what changed, and publishes it.

While the database is away the last state stands; `stale` then says so, as it does when the indexer has not heard from a
node for a while or stopped at a contradiction.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import psycopg
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from api.vpm.facts import Venue
from api.vpm.rows import NotIndexed, read_venue
from core.db.notify import listen
from core.errors import DatabaseError
from core.log import get_logger

log = get_logger(__name__)

CHANNEL = "chain_indexed"
POLL_SECONDS = 0.5
# At most so often is anything read, however fast blocks come.
SHORTEST_PAUSE_SECONDS = 0.1
# A node that was silent for so long, or an index that could not be read for so long, makes every answer stale.
STALE_AFTER_SECONDS = 10

UNREADABLE = (SQLAlchemyError, psycopg.Error, DatabaseError, OSError, TimeoutError)


class Follower:
    """`venue` is None until the index was read once. `tick` grows with every publication."""

    def __init__(self, url: str, engine: AsyncEngine, chain_id: int, *, clock: Callable[[], float] = time.time) -> None:
        self.venue: Venue | None = None
        self.tick = 0
        self.stale = True
        self.readable = False
        self._url = url
        self._engine = engine
        self._chain_id = chain_id
        self._clock = clock
        self._news = asyncio.Event()
        self._all_again = False
        self._published = asyncio.Condition()

    @property
    def read_at(self) -> int:
        """Our clock's time of the last good read of the chain, through the indexer; 0 before the first."""
        return 0 if self.venue is None else self.venue.head.seen_at

    async def run(self) -> None:
        listening = asyncio.create_task(self._listen(), name="index notices")
        try:
            while True:
                self._news.clear()
                await self.refresh()
                await asyncio.sleep(SHORTEST_PAUSE_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._news.wait()
                if listening.done():
                    listening.result()
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    async def refresh(self) -> None:
        """Reads once and publishes when anything a body shows is different."""
        before = (self.venue, self.stale)
        held, self._all_again = (None if self._all_again else self.venue), False
        try:
            async with asyncio.timeout(5), self._engine.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ")
                read = await read_venue(connection, self._chain_id, held)
            self.readable = True
            if read != self.venue:
                self.venue = read
        except NotIndexed:
            self.readable = True
        except UNREADABLE as error:
            if self.readable:
                log.warning("the index cannot be read", action="stock.index_unreadable", why=error)
            self.readable = False
        self.stale = self._is_stale()
        if (self.venue, self.stale) != before:
            await self._publish()

    async def changed(self, seen_tick: int, timeout_seconds: float) -> int:
        """Waits until something newer than `seen_tick` is published; returns the present tick either way."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._published:
                await self._published.wait_for(lambda: self.tick > seen_tick)
        return self.tick

    def _is_stale(self) -> bool:
        if self.venue is None or self.venue.head.state == "halted":
            return True
        return self._clock() - self.venue.head.seen_at > STALE_AFTER_SECONDS

    async def _publish(self) -> None:
        async with self._published:
            self.tick += 1
            self._published.notify_all()

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, [CHANNEL])) as notices:
            async for notice in notices:
                # Without a list of what changed (a rebuild, or very much at once) every market is read again.
                self._all_again = self._all_again or '"all":true' in notice.payload
                self._news.set()

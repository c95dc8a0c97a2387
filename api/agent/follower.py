"""Keeps the agent markets in memory: wakes on the indexer's notifications and reads what changed.

While the database is away the last state stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import psycopg
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent.facts import Venue
from api.agent.problems import problem
from api.agent.rows import NotIndexed, read_venue
from core.db.notify import listen
from core.errors import DatabaseError
from core.log import get_logger

log = get_logger(__name__)

CHANNEL = "chain_indexed"
POLL_SECONDS = 0.5
# At most so often is anything read, however fast blocks come.
SHORTEST_PAUSE_SECONDS = 0.05

UNREADABLE = (SQLAlchemyError, psycopg.Error, DatabaseError, OSError, TimeoutError)


class AgentIndex:
    """`venue` is None until the index was read once; `tick` grows with every change."""

    def __init__(self, url: str, engine: AsyncEngine, chain_id: int) -> None:
        self.venue: Venue | None = None
        self.tick = 0
        self.read_at = 0.0
        self._url = url
        self._engine = engine
        self._chain_id = chain_id
        self._news = asyncio.Event()
        self._all_again = False
        self._readable = True
        self._changed = asyncio.Condition()

    def required(self) -> Venue:
        """The state as last read; 500 before the first read."""
        if self.venue is None:
            raise problem("internal_error", "The markets could not be read yet; try again shortly.")
        return self.venue

    async def run(self) -> None:
        listening = asyncio.create_task(self._listen(), name="agent index notices")
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
        held, self._all_again = (None if self._all_again else self.venue), False
        try:
            async with asyncio.timeout(5), self._engine.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ")
                read = await read_venue(connection, self._chain_id, held)
            self._readable, self.read_at = True, time.time()
        except NotIndexed:
            self._readable = True
            return
        except UNREADABLE as error:
            if self._readable:
                log.warning("the index cannot be read", action="agent.index_unreadable", why=error)
            self._readable = False
            return
        if read != self.venue:
            async with self._changed:
                self.venue = read
                self.tick += 1
                self._changed.notify_all()

    async def moved(self, after_tick: int) -> None:
        """Waits for a change after this tick, as long as it takes."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.tick > after_tick)

    async def reached(self, block: int, timeout_seconds: float) -> bool:
        """Waits until the index holds this block; False when time is up first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: self.venue is not None and self.venue.head.number >= block)
        return self.venue is not None and self.venue.head.number >= block

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, [CHANNEL])) as notices:
            async for notice in notices:
                # Without a list of what changed (a rebuild, or very much at once) every market is read again.
                self._all_again = self._all_again or '"all":true' in notice.payload
                self._news.set()

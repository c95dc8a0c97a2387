"""What a surface shows of the index, kept in memory: it wakes on the indexer's signals, reads what changed, and
publishes it.

While the database is away the last state stands. Signals come from the primary, what they tell of may be read
from a replica, which is a little behind: a signalled block is looked for until it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.database import DATABASE_ERRORS
from core.db.channels import CHAIN_INDEXED, IndexStep, Resync, Subscription
from core.log import get_logger

log = get_logger(__name__)

POLL_SECONDS = 0.5
READ_SECONDS = 5.0
# A replica further behind is read every POLL_SECONDS only, and says by its head's age that it is stale.
MAX_LAG_SECONDS = 10.0

# So many readings may follow one another after a quiet time. A bet in one block is not to wait for the pause after the
# block before it.
READINGS_AT_ONCE = 4

V = TypeVar("V")

# Reads the present state, of the state held only what changed since; None while not one block of the chain is indexed.
Read = Callable[[AsyncConnection, V | None], Awaitable[V | None]]


def _never(_venue: object) -> bool:
    return False


class FollowedIndex(Generic[V]):
    """A surface's markets as last read, read again at each signal that is news.

    `venue` is None until the index was read once. `tick` grows with every publication, `generation` whenever all of
    it was read anew: a rebuild changes rows and leaves their blocks, so whatever is kept by an earlier generation is to
    be read again, even if the venue is the same. `stirred` is set at the next signal that is news, or publication, and
    is another one then: to be taken before reading.

    name: whose it is, for the log. chain_id: whose signals are news. url: of the primary, which notifies. engine: where
    it is read. read: called within one snapshot. pause_seconds: so often is it read for long, however fast blocks come.
    is_stale: whether this state is too old to be called the present one; that is published too when it changes.
    replica_block: where the engine leads to a replica, up to which block a state goes.
    """

    def __init__(
        self,
        name: str,
        chain_id: int,
        url: str,
        engine: AsyncEngine,
        read: Read[V],
        *,
        pause_seconds: float,
        is_stale: Callable[[V | None], bool] = _never,
        replica_block: Callable[[V], int] | None = None,
    ) -> None:
        self.venue: V | None = None
        self.tick = 0
        self.generation = 0
        self.stale = is_stale(None)
        self.readable = False
        self._name = name
        self._chain_id = chain_id
        self._url = url
        self._engine = engine
        self._read = read
        self._replica_block = replica_block
        self._lag_seconds = MAX_LAG_SECONDS if replica_block else 0.0
        self._pace = TokenBucket(pause_seconds, READINGS_AT_ONCE)
        self._is_stale = is_stale
        self._news = Subscription()
        self._told_block: int | None = None
        self._told_at = 0.0
        self._all_again = False
        self._all_again_until = 0.0
        self._warned = False
        self.stirred = asyncio.Event()
        self._published = asyncio.Condition()
        self._reading = asyncio.Lock()
        self._readings_begun = 0

    async def run(self) -> None:
        async with self._news.of(self._url, CHAIN_INDEXED, self._hear):
            while True:
                self._news.forget()
                await self.refresh()
                await asyncio.sleep(self._pace.pause())
                if not self._behind():
                    await self._news.wait(POLL_SECONDS)

    def _behind(self) -> bool:
        """Whether the replica may be about to show the block that the primary told of."""
        if self._replica_block is None or self._told_block is None:
            return False
        if time.monotonic() - self._told_at >= self._lag_seconds:
            return False
        return self.venue is None or self._replica_block(self.venue) != self._told_block

    async def refresh(self) -> None:
        """Publishes what a reading begun after this call found, when anything a body shows is different.

        One reading at a time: of two, the one that began earlier could be the last to publish. Who waited for one that
        began after the call needs none of its own.
        """
        begun = self._readings_begun
        async with self._reading:
            if self._readings_begun == begun:
                self._readings_begun += 1
                await self._refresh()

    async def _refresh(self) -> None:
        before = (self.venue, self.stale, self.generation)
        # Nothing says when a replica has everything anew: it is read again and again for a while.
        all_again = self._all_again or time.monotonic() < self._all_again_until
        self._all_again = False
        try:
            async with asyncio.timeout(READ_SECONDS), self._engine.connect() as connection:
                await connection.execution_options(isolation_level="REPEATABLE READ")
                read = await self._read(connection, None if all_again else self.venue)
        except DATABASE_ERRORS as error:
            self._all_again = self._all_again or all_again
            self.readable = False
            if not self._warned:
                log.warning("the index cannot be read", action=f"{self._name}.index_unreadable", why=error)
            self._warned = True
        else:
            self.readable, self._warned = True, False
            if read is not None and read != self.venue:
                self.venue = read
            self.generation += all_again
        self.stale = self._is_stale(self.venue)
        if (self.venue, self.stale, self.generation) != before:
            self.tick += 1  # in one step with what it numbers: what is kept is kept by it
            self._stir()
            async with self._published:
                self._published.notify_all()

    async def changed(self, seen_tick: int, timeout_seconds: float | None = None) -> int:
        """Waits until something newer than `seen_tick` is published; returns the present tick either way."""
        await self._until(lambda: self.tick > seen_tick, timeout_seconds)
        return self.tick

    async def _until(self, holds: Callable[[], bool], timeout_seconds: float | None) -> None:
        """Waits until it holds, looking at every publication, or until time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._published:
                await self._published.wait_for(holds)

    def _stir(self) -> None:
        self.stirred.set()
        self.stirred = asyncio.Event()

    def _hear(self, step: IndexStep | Resync) -> bool:
        if not isinstance(step, Resync):
            if step.chain_id != self._chain_id:
                return False
            self._told_block, self._told_at = step.block, time.monotonic()
        self._stir()
        # A step that was missed may have been one of those after which every market is read again.
        if isinstance(step, Resync) or step.everything:
            self._all_again, self._all_again_until = True, time.monotonic() + self._lag_seconds
        return True


class TokenBucket:
    """A token bucket: one token every `seconds`, and room for `at_once` of them."""

    def __init__(self, seconds: float, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._credit_seconds = seconds * (at_once - 1)
        self._clock = clock
        self._next = clock() - self._credit_seconds

    def pause(self) -> float:
        """Take a token and return how long to wait before taking the next."""
        now = self._clock()
        self._next = max(self._next, now - self._credit_seconds) + self._seconds
        return max(0.0, self._next - now)

"""A surface's copy of the index in memory. It waits for the indexer's notifications, reads what changed and publishes
the new state. While the database is unreachable, the previous state is kept.

Notifications come from the primary, but reads may go to a replica that lags a little. Reads are therefore repeated
until the replica has the notified block.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from cachetools import LRUCache
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.database import DATABASE_ERRORS
from core.db.channels import CHAIN_INDEXED, IndexStep, Resync, Subscription
from core.db.engine import consistent_read
from core.log import get_logger

log = get_logger(__name__)

POLL_SECONDS = 0.5
READ_SECONDS = 5.0
# A replica further behind is read every POLL_SECONDS only; its old head marks it as stale.
MAX_LAG_SECONDS = 10.0

# Reads that may follow each other after a quiet time, so that a bet does not wait for the pause after an earlier block.
READINGS_AT_ONCE = 4

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Reads the current state, or only what changed since the given one; None before the first block is indexed.
Read = Callable[[AsyncConnection, V | None], Awaitable[V | None]]


class FollowedIndex(Generic[V]):
    """A surface's markets as last read. They are read again after each notification about their chain.

    `snapshot` is None until the first read. `tick` grows with every published state. `generation` grows whenever
    everything is read again, because a rebuild of the index changes rows but not their blocks. Values cached for an
    earlier generation are outdated even if the snapshot is equal.

    `name`: the surface's name in the log. `url`: the URL of the primary, which sends the notifications. `read`: reads
    the state; it is called within one database snapshot. `pause_seconds`: the average time between reads, however fast
    blocks arrive. `is_stale`: returns whether a state is too old to count as current. When its result changes, the
    state is published again. `replica_block`: returns the last block that a state includes. Pass it if the engine reads
    from a replica.
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
        is_stale: Callable[[V | None], bool] = lambda _snapshot: False,
        replica_block: Callable[[V], int] | None = None,
    ) -> None:
        self.snapshot: V | None = None
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
        self._signals = Subscription()
        self._notified_block: int | None = None
        self._notified_at = 0.0
        self._all_again = False
        self._all_again_until = 0.0
        self._warned = False
        self._published = asyncio.Condition()
        self._reading = asyncio.Lock()
        self._readings_begun = 0

    async def run(self) -> None:
        async with self._signals.listening(self._url, CHAIN_INDEXED, self._note_step):
            while True:
                self._signals.clear()
                await self.refresh()
                await asyncio.sleep(self._pace.pause())
                if not self._behind():
                    await self._signals.wait(POLL_SECONDS)

    def _behind(self) -> bool:
        """Return whether the replica lacks the notified block but is likely to get it soon."""
        if self._replica_block is None or self._notified_block is None:
            return False
        if time.monotonic() - self._notified_at >= self._lag_seconds:
            return False
        return self.snapshot is None or self._replica_block(self.snapshot) != self._notified_block

    async def refresh(self) -> None:
        """Read the index and publish the state if it changed. The read begins after this call.

        Only one read runs at a time; otherwise an older state could be published after a newer one. If another caller's
        read began after this call, wait for that one.
        """
        begun = self._readings_begun
        async with self._reading:
            if self._readings_begun == begun:
                self._readings_begun += 1
                await self._refresh()

    async def _refresh(self) -> None:
        before = (self.snapshot, self.stale, self.generation)
        # Nothing says when a replica has caught up with a rebuild, so everything is read again for a while.
        all_again = self._all_again or time.monotonic() < self._all_again_until
        self._all_again = False
        try:
            async with asyncio.timeout(READ_SECONDS), consistent_read(self._engine) as connection:
                read = await self._read(connection, None if all_again else self.snapshot)
        except DATABASE_ERRORS as error:
            self._all_again = self._all_again or all_again
            self.readable = False
            if not self._warned:
                log.warning("failed to read the index", action=f"{self._name}.index_unreadable", why=error)
            self._warned = True
        else:
            self.readable, self._warned = True, False
            if read is not None and read != self.snapshot:
                self.snapshot = read
            self.generation += all_again
        self.stale = self._is_stale(self.snapshot)
        if (self.snapshot, self.stale, self.generation) != before:
            self.tick += 1  # without an await after the change, as caches go by it
            async with self._published:
                self._published.notify_all()

    async def changed(self, seen_tick: int, timeout_seconds: float | None = None) -> int:
        """Wait until a state newer than `seen_tick` is published, or until the timeout. Return the current tick."""
        await self._until(lambda: self.tick > seen_tick, timeout_seconds)
        return self.tick

    async def _until(self, holds: Callable[[], bool], timeout_seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds), self._published:
                await self._published.wait_for(holds)

    def _note_step(self, step: IndexStep | Resync) -> bool:
        if not isinstance(step, Resync):
            if step.chain_id != self._chain_id:
                return False
            self._notified_block, self._notified_at = step.block, time.monotonic()
        # After a missed step, too, every market must be read again.
        if isinstance(step, Resync) or step.everything:
            self._all_again, self._all_again_until = True, time.monotonic() + self._lag_seconds
        return True


class TokenBucket:
    """A token bucket that gains one token every `seconds` and holds at most `at_once` of them."""

    def __init__(self, seconds: float, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._credit_seconds = seconds * (at_once - 1)
        self._clock = clock
        self._next = clock() - self._credit_seconds

    def pause(self) -> float:
        """Take a token. Return how long to wait before taking the next one."""
        now = self._clock()
        self._next = max(self._next, now - self._credit_seconds) + self._seconds
        return max(0.0, self._next - now)


MAX_SETTLED_KEPT = 500
READ_AT_ONCE = 500

# Reads in one statement, since each statement sees a different moment.
LoadRows = Callable[[AsyncConnection, Sequence[K]], Awaitable[Mapping[K, V]]]


class Archive(Generic[K, V]):
    """A cache of settled markets' rows.

    The reader of the index calls `forget` for rows that have changed, and `forget_all` when any row may have changed. A
    row that was read during a change may be outdated, so it is returned but not cached.
    """

    def __init__(self, engine: AsyncEngine, load: LoadRows[K, V], *, most: int = MAX_SETTLED_KEPT) -> None:
        self._engine = engine
        self._load = load
        self._rows: LRUCache[K, V] = LRUCache(most)
        self._changes = 0

    def forget(self, keys: Iterable[K]) -> None:
        self._changes += 1
        for key in keys:
            self._rows.pop(key, None)

    def forget_all(self) -> None:
        self._changes += 1
        self._rows.clear()

    async def get(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the rows of the settled markets among these keys. Raise one of DATABASE_ERRORS if any row cannot be
        read."""
        distinct = dict.fromkeys(keys)
        rows = {key: value for key in distinct if (value := self._rows.get(key)) is not None}
        missing = [key for key in distinct if key not in rows]
        for start in range(0, len(missing), READ_AT_ONCE):
            rows |= await self._read(missing[start : start + READ_AT_ONCE])
        return rows

    async def _read(self, keys: Sequence[K]) -> Mapping[K, V]:
        changes = self._changes
        async with asyncio.timeout(READ_SECONDS), self._engine.connect() as connection:
            read = await self._load(connection, keys)
        if changes == self._changes:
            for key, value in read.items():
                self._rows[key] = value
        return read

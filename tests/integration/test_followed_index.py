"""The index in memory, on a real database: what is published when, and what is read again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.followed_index import FollowedIndex
from core.db.channels import CHAIN_INDEXED, IndexStep
from core.db.engine import conninfo, make_engine
from core.service.cancelling import cancel_and_wait
from tests.waiting import until

CHAIN = 42161
REBUILT = IndexStep(CHAIN, 9, everything=True)
KILL_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'vpm-listen'"
)


@dataclass
class Shown:
    """A table of one number, and what the follower held at each of its readings: all of them, and those that
    succeeded."""

    url: str
    held: list[int | None] = field(default_factory=list)
    read_with: list[int | None] = field(default_factory=list)
    slow_seconds: list[float] = field(default_factory=list)
    """How long each of the next readings takes to come back with what it found."""

    async def read(self, connection: AsyncConnection, held: int | None) -> int | None:
        self.held.append(held)
        found: int | None = await connection.scalar(text("SELECT max(value) FROM shown"))
        if self.slow_seconds:
            await asyncio.sleep(self.slow_seconds.pop(0))
        self.read_with.append(held)
        return found

    def do(self, *statements: str) -> None:
        with psycopg.connect(conninfo(self.url), autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())

    def notify(self, step: IndexStep) -> None:
        self.do(f"NOTIFY {CHAIN_INDEXED.name}, '{CHAIN_INDEXED.write(step)}'")


@pytest.fixture
def shown(fresh_database_url: str) -> Shown:
    made = Shown(fresh_database_url)
    made.do("CREATE TABLE shown (value int)", "INSERT INTO shown VALUES (1)")
    return made


@contextlib.asynccontextmanager
async def followed(shown: Shown) -> AsyncIterator[FollowedIndex[int]]:
    engine = make_engine(shown.url)
    yield FollowedIndex(
        "test", CHAIN, shown.url, engine, shown.read, pause_seconds=0.01, is_stale=lambda value: value in (None, 3)
    )
    await engine.dispose()


@contextlib.asynccontextmanager
async def running(index: FollowedIndex[int]) -> AsyncIterator[None]:
    task = asyncio.create_task(index.run())
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def test_only_a_difference_is_published(shown: Shown) -> None:
    async with followed(shown) as index:
        assert (index.snapshot, index.tick, index.stale, index.readable) == (None, 0, True, False)
        shown.do("DELETE FROM shown")
        await index.refresh()  # the indexer has not read one block
        assert (index.snapshot, index.tick, index.stale, index.readable) == (None, 0, True, True)
        shown.do("INSERT INTO shown VALUES (1)")
        await index.refresh()
        await index.refresh()
        assert (index.snapshot, index.tick, index.stale) == (1, 1, False)
        assert await index.changed(0, 5) == 1
        assert await index.changed(1, 0.01) == 1  # nothing newer: time is up
        shown.do("UPDATE shown SET value = 3")
        await index.refresh()
        assert (index.snapshot, index.tick, index.stale) == (3, 2, True)


async def test_a_state_and_its_tick_are_seen_together(shown: Shown) -> None:
    """A waiter woken by a state asks with its tick; with the previous tick it would get a cached body."""
    async with followed(shown) as index:
        async with index._published:  # a reader holds what is published
            reading = asyncio.create_task(index.refresh())
            await until(lambda: index.tick == 1)
            seen = (index.snapshot, index.tick)
        await reading
    assert seen == (1, 1)


async def test_a_notice_is_read_at_once_and_a_silent_change_at_the_next_look(shown: Shown) -> None:
    async with followed(shown) as index, running(index):
        await index.changed(0, 10)
        await asyncio.sleep(0.1)  # the listener is there, and its first signal is behind us
        seen = index.tick
        waiting = asyncio.create_task(index.changed(seen, 10))
        shown.do("UPDATE shown SET value = 2")
        shown.notify(IndexStep(CHAIN, 2))
        assert await waiting == seen + 1
        assert index.snapshot == 2
        shown.do("UPDATE shown SET value = 4")
        assert await index.changed(seen + 1, 10) == seen + 2


async def test_while_it_cannot_be_read_the_last_state_stands(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    async with followed(shown) as index:
        await index.refresh()
        shown.do("ALTER TABLE shown RENAME TO hidden")
        with caplog.at_level(logging.WARNING):
            await index.refresh()
            await index.refresh()
        assert (index.snapshot, index.tick, index.readable) == (1, 1, False)
        errors = [each for each in caplog.records if "failed to read the index" in each.getMessage()]
        assert len(errors) == 1  # once, not at every look
        shown.do("ALTER TABLE hidden RENAME TO shown")
        await index.refresh()
        assert (index.snapshot, index.tick, index.readable) == (1, 1, True)


async def test_a_rebuild_that_could_not_be_read_is_not_forgotten(shown: Shown) -> None:
    async with followed(shown) as index, running(index):
        await until(lambda: len(shown.held) > 2 and shown.held[-1] == 1)
        shown.do("ALTER TABLE shown RENAME TO hidden")
        await until(lambda: not index.readable)
        tried, read = len(shown.held), len(shown.read_with)
        shown.notify(REBUILT)
        await until(lambda: len(shown.held) > tried + 2)  # in vain
        shown.do("ALTER TABLE hidden RENAME TO shown")
        await until(lambda: len(shown.read_with) > read + 1)
        assert shown.read_with[read : read + 2] == [None, 1]  # all of it once, then what changed


async def test_a_rebuild_is_published_even_when_the_state_is_the_same(shown: Shown) -> None:
    """An earlier reading of it (a market's positions) may be out of date."""
    async with followed(shown) as index, running(index):
        await until(lambda: len(shown.held) > 2 and shown.held[-1] == 1)
        tick, generation = index.tick, index.generation
        shown.notify(REBUILT)
        assert await index.changed(tick, 10) == tick + 1
        assert (index.snapshot, index.generation) == (1, generation + 1)


async def test_a_reading_begun_earlier_never_publishes_over_a_later_one(shown: Shown) -> None:
    async with followed(shown) as index:
        await index.refresh()
        shown.slow_seconds = [0.5]
        early = asyncio.create_task(index.refresh())
        await until(lambda: not shown.slow_seconds)  # it has read, and is slow to come back
        shown.do("UPDATE shown SET value = 2")
        await asyncio.gather(early, *(index.refresh() for _ in range(20)))
        assert index.snapshot == 2
        assert len(shown.held) == 3  # one reading served all who asked before it began


async def test_signals_of_other_chains_are_ignored(shown: Shown) -> None:
    async with followed(shown) as index, running(index):
        await until(lambda: len(shown.held) > 2 and shown.held[-1] == 1)
        seen = len(shown.held)
        shown.notify(IndexStep(8453, 7, everything=True))  # to read everything again
        shown.do("UPDATE shown SET value = 2")
        shown.notify(IndexStep(CHAIN, 10))
        await until(lambda: index.snapshot == 2)
        assert None not in shown.held[seen:]


async def test_after_a_lost_connection_everything_is_read(shown: Shown) -> None:
    async with followed(shown) as index, running(index):
        await until(lambda: len(shown.held) > 2 and shown.held[-1] == 1)
        seen = len(shown.held)
        shown.do(KILL_LISTENERS)
        await until(lambda: None in shown.held[seen:])
        assert index.snapshot == 1

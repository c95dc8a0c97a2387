"""PostgreSQL in virtual time: who waits for another's lock goes on when the world says so, and no sooner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import waiting
from psycopg.pq import TransactionStatus

from core.agent.notices import submitted
from core.service.cancelling import end
from tests.simulator.clock import VirtualClock
from tests.simulator.database import SimulatedDatabase
from tests.simulator.loop import Process, VirtualLoop, inside

LOCK_SECONDS = submitted._LOCK_TIMEOUT_MS / 1000
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def run(fresh_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    for module, name in ((waiting, "wait_async"), (waiting, "wait_conn_async"), (submitted, "_LOCK_TIMEOUT_MS")):
        monkeypatch.setattr(module, name, getattr(module, name))  # as it is now, when this test is over
    with psycopg.connect(fresh_database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE counter AS SELECT 1 AS id, 0 AS value")
    loop = VirtualLoop(VirtualClock(1_900_000_000, tmp_path / "clock"))
    database = SimulatedDatabase(fresh_database_url, loop, loop.clock, random.Random(1))

    def run(work: Coroutine[Any, Any, None]) -> None:
        with inside(Process("tester")):
            loop.run_until_complete(work)

    yield run
    database._monitor.close()
    loop.close()


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    try:
        yield connection
    finally:
        await connection.close()


async def _add(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute("UPDATE counter SET value = value + 1")


async def _add_soon(connection: psycopg.AsyncConnection[Any]) -> None:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = {submitted._LOCK_TIMEOUT_MS}".encode())
        await _add(connection)


async def _value(connection: psycopg.AsyncConnection[Any]) -> int:
    row = await (await connection.execute("SELECT value FROM counter")).fetchone()
    assert row is not None
    return int(row[0])


def test_who_is_let_go_is_done_before_anybody_else_goes_on(run: Run, fresh_database_url: str) -> None:
    """Five times, for a race can also be won."""

    async def world() -> None:
        url = fresh_database_url
        async with _connected(url) as holder, _connected(url) as waiter, _connected(url) as reader:
            for turn in range(5):
                async with holder.transaction():
                    await _add(holder)
                    waiting = asyncio.create_task(_add(waiter))
                    await asyncio.sleep(1)
                    assert not waiting.done()
                assert await _value(reader) == 2 * turn + 2
                await waiting

    run(world())


def test_what_is_sent_in_a_pipeline_is_done_before_anybody_else_goes_on(run: Run, fresh_database_url: str) -> None:
    async def world() -> None:
        url = fresh_database_url
        async with _connected(url) as sender, _connected(url) as other, sender.transaction():
            async with sender.pipeline():
                await sender.execute("SELECT pg_sleep(0.3), pg_advisory_xact_lock(1)")
                found = await (await other.execute("SELECT pg_try_advisory_xact_lock(1)")).fetchone()
            assert found == (False,)

    run(world())


def test_whoever_is_cancelled_leaves_a_connection_that_can_be_used(run: Run, fresh_database_url: str) -> None:
    """The driver counts the transactions it is in, and counts before it waits: a cancelled BEGIN or COMMIT was sent."""

    async def begun(connection: psycopg.AsyncConnection[Any]) -> None:
        async with connection.transaction(), connection.pipeline():
            await _add(connection)

    async def world() -> None:
        ends = set()
        async with _connected(fresh_database_url) as connection:
            for turn in range(200):
                before = await _value(connection)
                work = asyncio.create_task(begun(connection))
                await asyncio.sleep(turn * 0.0001)
                await end(work)
                assert (connection._num_transactions, connection._pipeline) == (0, None)
                assert connection.info.transaction_status == TransactionStatus.IDLE
                ends.add((work.cancelled(), await _value(connection) - before))
        assert ends == {(True, 0), (True, 1), (False, 1)}

    run(world())


def test_a_lock_is_waited_for_by_the_clock_of_the_world(run: Run, fresh_database_url: str) -> None:
    async def world() -> None:
        url = fresh_database_url
        async with _connected(url) as holder, _connected(url) as waiter, holder.transaction():
            await _add(holder)
            began = asyncio.get_running_loop().time()
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await _add_soon(waiter)
            assert asyncio.get_running_loop().time() - began == pytest.approx(LOCK_SECONDS, abs=0.5)

    run(world())


def test_two_that_wait_for_each_other_are_told_so(run: Run, fresh_database_url: str) -> None:
    async def both(connection: psycopg.AsyncConnection[Any], *tables: str) -> None:
        async with connection.transaction():
            for each in tables:
                await connection.execute(f"UPDATE {each} SET value = value + 1".encode())
                await asyncio.sleep(1)

    async def world() -> None:
        url = fresh_database_url
        async with _connected(url) as first, _connected(url) as second:
            await first.execute("CREATE TABLE other AS SELECT 0 AS value")
            one, two = both(first, "counter", "other"), both(second, "other", "counter")
            ended = await asyncio.gather(one, two, return_exceptions=True)
            assert [type(each) for each in ended if each is not None] == [psycopg.errors.DeadlockDetected]

    run(world())

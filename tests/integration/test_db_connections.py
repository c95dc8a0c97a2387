"""Connections, signals, switches, heartbeats and column types on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from core.db import heartbeat, switches
from core.db.channels import AGENT_EVENT, CHAIN_INDEXED, RESYNC, WrittenChannel, listen, notify
from core.db.engine import Connection, ConnectionPool, check_database, connect, consistent_read, make_engine, make_pool
from core.db.switches import TRADING_PAUSED, SwitchWatcher, read_switches, set_switch
from core.db.types import Address, Int256, Uint256, UtcDateTime
from core.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, DatabaseError
from core.service.cancelling import cancel_and_wait
from tests.waiting import PATIENCE, until

ODD = WrittenChannel[int]("Odd name", int, str)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(database_url, size=4, autocommit=True) as opened:
        yield opened


def _changed(url: str, **parts: object) -> str:
    return make_url(url).set(drivername="postgresql", **parts).render_as_string(False)  # type: ignore[arg-type]


# Start-up errors: one sentence, within seconds, without the password


@pytest.mark.parametrize(
    ("parts", "said", "exit_code"),
    [
        ({"password": "wrong-password"}, "refused the user or password", EXIT_CONFIG),
        ({"username": "no-such-user"}, "refused the user or password", EXIT_CONFIG),
        ({"database": "not_there"}, "does not exist", EXIT_CONFIG),
        ({"port": 1}, "Nothing accepts connections", EXIT_UNAVAILABLE),
        ({"host": "no-such-host.invalid"}, "failed to resolve host", EXIT_UNAVAILABLE),
    ],
)
async def test_a_wrong_url_is_one_sentence(
    database_url: str, parts: dict[str, object], said: str, exit_code: int
) -> None:
    url = _changed(database_url, **parts)
    with pytest.raises(DatabaseError) as e:
        await check_database(url)
    assert said in e.value.message
    assert e.value.exit_code == exit_code
    for password in (make_url(database_url).password, "wrong-password"):
        assert password
        assert password not in e.value.sentence()


async def test_a_server_that_never_answers_is_given_up_on() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/x"
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(DatabaseError, match="timeout expired"):
                await check_database(url, connect_timeout_seconds=2)


# Pools and engines


async def test_a_pool_survives_the_loss_of_its_connections(database_url: str, pool: ConnectionPool) -> None:
    async with pool.connection() as connection:
        pid = connection.info.backend_pid
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT 1")
        assert await cursor.fetchone() == (1,)


async def test_an_engine_survives_it_too(database_url: str) -> None:
    engine = make_engine(database_url, pool_size=1)
    try:
        async with engine.connect() as connection:
            pid = await connection.scalar(sa.text("SELECT pg_backend_pid()"))
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        async with engine.connect() as connection:
            assert await connection.scalar(sa.text("SELECT 1")) == 1
    finally:
        await engine.dispose()


async def test_only_a_connection_that_was_idle_is_asked_whether_it_lives(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(database_url, pool_size=1)

    async def last_statements(pool: ConnectionPool) -> list[str]:
        """Return the last statement the server saw of each connection when both were only handed out."""
        async with pool.connection() as connection, engine.connect() as other:
            raw = await other.get_raw_connection()
            assert raw.driver_connection is not None
            pids = [each.info.backend_pid for each in (connection, raw.driver_connection)]
        with psycopg.connect(database_url) as reader:
            query = (
                "SELECT query FROM pg_stat_activity JOIN unnest(%s::int[]) WITH ORDINALITY AS p (pid, at) USING (pid)"
            )
            return [each for (each,) in reader.execute(f"{query} ORDER BY at".encode(), (pids,))]

    async def one_and_two(pool: ConnectionPool) -> None:
        async with pool.connection() as connection, engine.connect() as other:
            await connection.execute("SELECT 1")
            await other.execute(sa.text("SELECT 2"))

    try:
        async with make_pool(database_url, size=1, autocommit=True) as pool:
            await one_and_two(pool)
            assert await last_statements(pool) == ["SELECT 1", "SELECT 2"]
            monkeypatch.setattr("core.db.engine.TRUSTED_SECONDS", 0.0)
            assert await last_statements(pool) == ["", ";"]
    finally:
        await engine.dispose()


async def test_consistent_reads_keep_the_prepared_statements_of_their_connection(database_url: str) -> None:
    """A ROLLBACK would make psycopg discard them, and the server parse and plan each statement at every read."""
    engine = make_engine(database_url, pool_size=1)
    # A statement is prepared at its sixth execution.
    prepared = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT 17%'")
    try:
        for _ in range(7):
            async with consistent_read(engine) as connection:
                assert await connection.scalar(sa.text("SELECT 17")) == 17
        async with consistent_read(engine) as connection:
            assert await connection.scalar(prepared) == 1
    finally:
        await engine.dispose()


async def test_statements_of_an_engine_stand_alone_unless_they_must_see_the_same_moment(database_url: str) -> None:
    engine = make_engine(database_url, pool_size=1)
    now = sa.text("SELECT now()")  # when the transaction began
    try:
        async with engine.connect() as connection:
            assert await connection.scalar(now) < await connection.scalar(now)
        async with consistent_read(engine) as connection:
            assert await connection.scalar(now) == await connection.scalar(now)
        async with engine.connect() as connection:  # the next who takes it has it as it was
            assert await connection.scalar(now) < await connection.scalar(now)
    finally:
        await engine.dispose()


async def test_a_statement_that_takes_too_long_is_stopped(pool: ConnectionPool) -> None:
    async with pool.connection() as connection:
        cursor = await connection.execute("SHOW statement_timeout")
        assert await cursor.fetchone() == ("30s",)
        cursor = await connection.execute("SHOW timezone")
        assert await cursor.fetchone() == ("UTC",)


# Signals


async def test_a_transaction_that_does_nothing_is_ended(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.db.engine.IDLE_IN_TRANSACTION_MS", 300)

    async def hangs() -> None:
        async with make_pool(database_url, size=1) as ours, ours.connection() as connection:
            await connection.execute("LOCK TABLE cup_account")
            async with pool.connection() as other, other.transaction():
                await other.execute("LOCK TABLE cup_account")

    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        await hangs()


async def test_notices_and_the_gap_after_a_lost_connection(database_url: str, pool: ConnectionPool) -> None:
    async with contextlib.aclosing(listen(database_url, ODD)) as signals, asyncio.timeout(PATIENCE):
        assert await anext(signals) is RESYNC
        async with pool.connection() as connection:
            await notify(connection, ODD, 7)
            await notify(connection, ODD, 8)
        assert [await anext(signals), await anext(signals)] == [7, 8]
        with psycopg.connect(database_url, autocommit=True) as other:
            killed = other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'vpm-listen'"
                " AND datname = current_database()"
            ).fetchall()
        assert len(killed) == 1
        assert await anext(signals) is RESYNC, "the listener has to look again"
        async with pool.connection() as connection:
            await notify(connection, ODD, 9)
        assert await anext(signals) == 9


async def test_a_signal_that_cannot_be_read_ends_no_listener(database_url: str, pool: ConnectionPool) -> None:
    for channel, text in ((ODD, ""), (CHAIN_INDEXED, "{}"), (CHAIN_INDEXED, "no JSON"), (AGENT_EVENT, "0x12")):
        async with contextlib.aclosing(listen(database_url, channel)) as signals, asyncio.timeout(PATIENCE):
            await anext(signals)
            async with pool.connection() as connection:
                await connection.execute("SELECT pg_notify(%s, %s)", (channel.name, text))
            assert await anext(signals) is RESYNC, "something may have happened: the listener looks again"


# Switches and heartbeats


def _all_say(watchers: list[SwitchWatcher], wanted: bool) -> bool:
    return all(watcher.is_on(TRADING_PAUSED) is wanted for watcher in watchers)


async def test_every_process_sees_a_switch_within_two_seconds(database_url: str, pool: ConnectionPool) -> None:
    assert switches.POLL_SECONDS <= 1  # when the signal is lost
    watchers = [SwitchWatcher(database_url, pool) for _ in range(2)]
    tasks = [asyncio.create_task(watcher.run()) for watcher in watchers]
    try:
        await asyncio.gather(*(watcher.refresh() for watcher in watchers))
        assert not any(watcher.is_on(TRADING_PAUSED) for watcher in watchers)
        for wanted in (True, False):
            async with pool.connection() as connection:
                await set_switch(connection, TRADING_PAUSED, wanted, reason="drill", changed_by="test")
                assert (await read_switches(connection))[TRADING_PAUSED] is wanted
            await until(partial(_all_say, watchers, wanted))
    finally:
        await cancel_and_wait(*tasks)


async def test_a_switch_is_seen_by_polling_when_signals_are_lost(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.db.switches.OPERATOR_SWITCH", ODD)
    watcher = SwitchWatcher(database_url, pool)
    task = asyncio.create_task(watcher.run())
    try:
        await asyncio.sleep(0.2)
        async with pool.connection() as connection:
            await set_switch(connection, "cup_halted", True, reason="drill", changed_by="test")
        await until(lambda: watcher.is_on("cup_halted"))
    finally:
        await cancel_and_wait(task)


async def test_a_heartbeat_shows_who_runs_and_forgets_the_dead(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.05)
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO daemon_heartbeat (daemon, instance, pid, is_leader, started_at, seen_at) "
            "VALUES ('indexer', 'old:1', 1, true, now() - interval '3 days', now() - interval '2 days')"
        )
        lag = {"blocks": 3}
        beating = asyncio.create_task(
            heartbeat.beat_forever(pool, "indexer", is_leader=lambda: True, detail=lambda: lag)
        )

        async def beats() -> list[tuple[Any, ...]]:
            return await (
                await connection.execute(
                    "SELECT instance, is_leader, detail, seen_at > started_at FROM daemon_heartbeat"
                )
            ).fetchall()

        async with asyncio.timeout(PATIENCE):
            for lag["blocks"] in (3, 4):
                while await beats() != [(heartbeat.INSTANCE, True, {"blocks": lag["blocks"]}, True)]:
                    await asyncio.sleep(0.02)
        await cancel_and_wait(beating)
        ((_, is_leader, *_),) = await beats()
        assert not is_leader  # one that stopped does not lead


async def test_a_transaction_whose_connection_was_lost_is_never_taken_for_stored(pool: ConnectionPool) -> None:
    async def lose_it_inside() -> None:
        async with pool.connection() as connection, connection.transaction():
            async with pool.connection() as other:
                await other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
            with contextlib.suppress(psycopg.Error):
                await connection.execute("SELECT 1")

    with pytest.raises(psycopg.OperationalError, match="nothing was stored"):
        await lose_it_inside()


# Column types


@pytest.fixture(scope="module")
def typed(database_url: str) -> tuple[sa.Engine, sa.Table]:
    engine = sa.create_engine(sa.make_url(database_url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    table = sa.Table(
        "typed",
        sa.MetaData(),
        sa.Column("amount", Uint256),
        sa.Column("answer", Int256),
        sa.Column("owner", Address),
        sa.Column("at", UtcDateTime),
    )
    table.create(engine)
    return engine, table


@given(
    amount=st.integers(0, 2**256 - 1),
    answer=st.integers(-(2**255), 2**255 - 1),
    owner=st.binary(min_size=20, max_size=20),
    at=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)),
)
def test_what_is_stored_comes_back_exactly(
    typed: tuple[sa.Engine, sa.Table], amount: int, answer: int, owner: bytes, at: datetime
) -> None:
    engine, table = typed
    with engine.begin() as connection:
        row = connection.execute(
            sa.insert(table).values(amount=amount, answer=answer, owner=owner, at=at).returning(table)
        ).one()
        connection.rollback()
    assert tuple(row) == (amount, answer, owner, at)
    assert isinstance(row.amount, int)
    assert isinstance(row.owner, bytes)


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.thorough
async def test_a_pool_survives_callers_that_run_out_of_time_anywhere(database_url: str, autocommit: bool) -> None:
    chance = random.Random(7)

    async def impatient(pool: ConnectionPool) -> None:
        with contextlib.suppress(TimeoutError, psycopg.Error):
            async with (
                asyncio.timeout(chance.uniform(0, 0.2)),
                pool.connection() as connection,
                connection.transaction(),
            ):
                await connection.execute("SELECT pg_sleep(%s)", (chance.uniform(0, 0.003),))

    async with make_pool(database_url, size=6, autocommit=autocommit) as pool:
        for _ in range(25):
            await asyncio.gather(*(impatient(pool) for _ in range(200)))
        async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
            for _ in range(6):
                await stack.enter_async_context(pool.connection())


@pytest.mark.parametrize("turns", range(12))
async def test_a_caller_that_is_stopped_as_its_connection_comes_stops_and_gives_it_back(
    database_url: str, turns: int
) -> None:
    """Before Python 3.12, psycopg's pool swallows a cancellation at that moment: a keeper that no longer leads would
    continue."""
    async with make_pool(database_url, size=1) as pool:

        async def work() -> None:
            async with pool.connection():
                pass
            await asyncio.Event().wait()

        async def stop() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            working.cancel()

        held = await pool.getconn()
        working = asyncio.create_task(work())
        await until(lambda: pool.get_stats()["requests_waiting"] == 1)
        await asyncio.gather(pool.putconn(held), stop())
        await asyncio.wait((working,), timeout=PATIENCE)
        assert working.cancelled()
        async with asyncio.timeout(PATIENCE), pool.connection():
            pass


async def test_a_connection_whose_opening_is_cancelled_is_closed(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []

    async def cancelled_as_it_is_set_up(connection: Connection, *_arguments: object) -> None:
        opened.append(connection)
        raise asyncio.CancelledError

    monkeypatch.setattr(Connection, "execute", cancelled_as_it_is_set_up)
    with pytest.raises(asyncio.CancelledError):
        await connect(database_url)
    assert [each.closed for each in opened] == [True]

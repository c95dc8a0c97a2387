"""Sessions whose process says nothing any more, in each way there is: ended where they hold up others, nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from psycopg.pq import PGconn, abc

from core.db.engine import Connection, connect
from core.db.heartbeat import end_silent_sessions
from tests.waiting import PATIENCE

SILENT_SECONDS = 0.3
LOCK = b"SELECT pg_advisory_xact_lock(1)"
WAITS = b"""
SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()
"""
Falling = Callable[[abc.PGconn], object]


def idle(session: abc.PGconn) -> None:
    session.exec_(LOCK)


def in_a_copy(session: abc.PGconn) -> None:
    session.exec_(LOCK)
    session.exec_(b"COPY operator_switch FROM STDIN")


def in_a_pipeline(session: abc.PGconn) -> None:
    session.enter_pipeline_mode()
    session.send_query_params(LOCK, None)
    session.send_flush_request()
    session.flush()


def not_reading(session: abc.PGconn) -> None:
    session.exec_(LOCK)
    session.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)")


def at_work(session: abc.PGconn) -> None:
    session.exec_(LOCK)
    session.send_query(b"SELECT pg_sleep(3)")


@contextlib.contextmanager
def silent(url: str, falling: Falling, application_name: str = "vpm-test") -> Iterator[None]:
    """A session that has said nothing since it did something in a transaction."""
    session = PGconn.connect(f"{url}?application_name={application_name}".encode())
    try:
        session.exec_(b"BEGIN")
        falling(session)
        time.sleep(SILENT_SECONDS * 2)
        yield
    finally:
        session.finish()


@contextlib.asynccontextmanager
async def looking(url: str) -> AsyncIterator[tuple[Connection, asyncio.Task[Any]]]:
    """Open a connection to look by, and another that waits for a silent session's lock and must get it in the end."""
    async with await connect(url) as connection, await connect(url) as waiting:
        assert await end_silent_sessions(connection, SILENT_SECONDS) == 0, "no session waits yet"
        getting = asyncio.create_task(waiting.execute(LOCK))
        async with asyncio.timeout(PATIENCE):
            while not await (await connection.execute(WAITS)).fetchone():
                await asyncio.sleep(0.02)
        yield connection, getting
        async with asyncio.timeout(PATIENCE):
            await getting


@pytest.mark.parametrize("falling", [idle, in_a_copy, in_a_pipeline, not_reading])
async def test_a_silent_session_is_ended_where_another_waits_for_it(database_url: str, falling: Falling) -> None:
    with silent(database_url, falling):
        async with looking(database_url) as (connection, _):
            assert await end_silent_sessions(connection, SILENT_SECONDS) == 1


@pytest.mark.parametrize(
    ("falling", "application_name", "silent_seconds"),
    [
        pytest.param(at_work, "vpm-test", SILENT_SECONDS, id="it works"),
        pytest.param(idle, "psql", SILENT_SECONDS, id="it is none of ours"),
        pytest.param(idle, "vpm-test", 60.0, id="it said something a moment ago"),
    ],
)
async def test_other_sessions_are_let_be(
    database_url: str, falling: Falling, application_name: str, silent_seconds: float
) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(silent(database_url, falling, application_name))
        async with looking(database_url) as (connection, getting):
            assert await end_silent_sessions(connection, silent_seconds) == 0
            assert not getting.done()
            stack.close()

"""Database connections: SQLAlchemy engines for reading the index, psycopg pools for everything else (decision 22).

A pool checks a connection before use, unless the connection was used a moment ago and has received nothing since: a
server that shuts down sends a message first. Pools are small on purpose: more than 8 connections per process cost
PostgreSQL more than they gain. A pool with `autocommit` saves two round trips per statement; never use it for
statements that belong together.

A hanging server still accepts connections and acknowledges packets, so neither its statement timeout nor TCP ends a
wait. Therefore our process limits every wait for a response, and closes the connection when the limit is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncTransaction
from psycopg.abc import Params, PQGen, QueryNoTemplate
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import PoolProxiedConnection, event
from sqlalchemy.engine import Engine
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection as EngineConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from core.errors import ConfigError, DatabaseError, DatabaseRefused, DatabaseUnreachable
from core.log import get_logger, redact_text, redact_url
from core.service.cancelling import cancellation_count

log = get_logger(__name__)
T = TypeVar("T")


class Connection(AsyncConnection[TupleRow]):
    """A connection whose transactions either commit or raise an error.

    psycopg ends a transaction block silently if the connection was lost and the statement's error was caught inside the
    block. The code after the block would then rely on rows that were never stored.

    answer_seconds: the limit of each wait for a response, after which the connection is closed; None waits forever.
    """

    answer_seconds: float | None = None
    _giving_up: asyncio.TimerHandle | None = None

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """Wait as psycopg does, but raise OperationalError after `answer_seconds`."""
        if self.answer_seconds is not None:
            self._give_up_in(self.answer_seconds)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            if self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the library's own
        """Cancel the running statement. psycopg calls this when a wait is cancelled. psycopg itself would wait a long
        time for a hanging server; this method waits one second."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._give_up_in(CANCEL_SECONDS)
        await super().cancel_safe(timeout=min(timeout, CANCEL_SECONDS))

    def _give_up_in(self, seconds: float) -> None:
        self._giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)

    def _give_up(self, seconds: float) -> None:
        """Shut the socket down, so that psycopg ends the wait with a lost connection."""
        log.warning(
            "PostgreSQL is not responding; closing the connection",
            action="database.silent",
            application=self.info.get_parameters().get("application_name"),
            seconds=seconds,
        )
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def answer_timeout(self, seconds: float) -> Iterator[None]:
        """Limit each wait for a response inside the block to `seconds`."""
        before, self.answer_seconds = self.answer_seconds, seconds
        try:
            yield
        finally:
            self.answer_seconds = before

    @asynccontextmanager
    async def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AsyncIterator[AsyncTransaction]:
        async with super().transaction(savepoint_name, force_rollback) as begun:
            yield begun
        if begun.status is AsyncTransaction.Status.FAILED:
            raise psycopg.OperationalError("the connection was lost in a transaction: nothing was stored")

    async def fetch_all(
        self, query: QueryNoTemplate, values: Params | None = None, *, prepare: bool | None = None
    ) -> list[TupleRow]:
        return await (await self.execute(query, values, prepare=prepare)).fetchall()

    async def fetch_one(
        self, query: QueryNoTemplate, values: Params | None = None, *, prepare: bool | None = None
    ) -> TupleRow | None:
        return await (await self.execute(query, values, prepare=prepare)).fetchone()

    async def fetch_value(self, query: QueryNoTemplate, values: Params | None = None) -> Any:
        """Return the first column of the first row, or None if there is no row."""
        row = await self.fetch_one(query, values)
        return None if row is None else row[0]


class ConnectionPool(AsyncConnectionPool[Connection]):
    """A pool whose callers can be cancelled at any moment, even just as they get their connection.

    psycopg's pool uses `asyncio.wait_for`, which before Python 3.12 ignores a cancellation at that moment. A worker
    that is stopped because another process leads would then keep running.

    opened: how many connections have been opened so far.
    """

    opened = 0

    @property
    def opening(self) -> int:
        """Return how many connections are being opened now."""
        stats = self.get_stats()
        return stats.get("connections_num", 0) - stats.get("connections_errors", 0) - self.opened

    async def getconn(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109 - the library's own
        before = cancellation_count()  # may be above zero: a cancelled task may still clean up
        connection = await super().getconn(timeout)
        if cancellation_count() > before:
            await self.putconn(connection)
            raise asyncio.CancelledError
        return connection


STATEMENT_TIMEOUT_MS = 30_000  # a slower query is a bug
ANSWER_SECONDS = STATEMENT_TIMEOUT_MS / 1000 + 5  # a server that is silent for longer hangs
ALIVE_SECONDS = 2.0  # much longer than the check of a connection takes on a busy machine
CANCEL_SECONDS = 1.0
# After this a pool that cannot connect gives up until the next request for a connection. With psycopg's default of five
# minutes its pauses double, so that it would use a recovered server only a minute later.
RECONNECT_SECONDS = 5.0
IDLE_IN_TRANSACTION_MS = 60_000  # a transaction that is idle for longer belongs to a hanging process
TRUSTED_SECONDS = 1.0  # after a longer idle time a connection is checked, since networks drop idle ones silently
SESSION_TRIES = 3
# `make_engine` opens the connections itself, so SQLAlchemy's URL only names dialect and driver.
DIALECT = "postgresql+psycopg://"


def conninfo(url: str) -> str:
    """Return the URL for libpq. If it names several hosts, a primary and its standbys, connections go to the writable
    host, unless the URL's `target_session_attrs` says otherwise."""
    target = "postgresql://" + url.partition("://")[2]
    try:
        named = conninfo_to_dict(target)
    except psycopg.Error:
        raise ConfigError("DATABASE_URL is not a valid URL.") from None
    if "," in str(named.get("host")) and "target_session_attrs" not in named:
        return make_conninfo(target, target_session_attrs="read-write")
    return target


def make_engine(
    url: str,
    *,
    pool_size: int = 6,
    connect_timeout_seconds: float = 5.0,
    answer_seconds: float = ANSWER_SECONDS,
    application_name: str = "vpm",
) -> AsyncEngine:
    """Make an engine for reads, in autocommit mode: BEGIN and ROLLBACK around a statement would add two round trips.
    For reads that must see one snapshot, use `consistent_read`."""

    async def opened() -> Connection:
        return await _opened(url, connect_timeout_seconds, answer_seconds, application_name, autocommit=False)

    engine = create_async_engine(
        DIALECT,
        async_creator=opened,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=connect_timeout_seconds,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,  # bound values may be addresses or signatures, which do not belong in logs
    )
    _check_when_handed_out(engine.sync_engine)
    return engine


@asynccontextmanager
async def consistent_read(engine: AsyncEngine) -> AsyncIterator[EngineConnection]:
    """Open a connection on which all reads see one snapshot.

    The transaction commits at the end. Otherwise SQLAlchemy would roll it back, and psycopg discards a connection's
    prepared statements after a ROLLBACK.
    """
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="REPEATABLE READ")
        async with connection.begin():
            yield connection


def _check_when_handed_out(engine: Engine) -> None:
    @event.listens_for(engine, "checkin")
    def _used(connection: DBAPIConnection | None, _entry: ConnectionPoolEntry) -> None:
        if connection is not None:
            _last_used[engine.dialect.get_driver_connection(connection)] = _now()

    @event.listens_for(engine, "checkout")
    def _check(connection: DBAPIConnection, _entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
        driver = engine.dialect.get_driver_connection(connection)
        opened_for_this = driver not in _last_used
        if opened_for_this or _trusted(driver):
            return
        try:
            with driver.answer_timeout(ALIVE_SECONDS):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError(str(error)) from error  # the pool then opens another connection


def make_pool(
    url: str,
    *,
    size: int = 6,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    answer_seconds: float | None = ANSWER_SECONDS,
    application_name: str = "vpm",
) -> ConnectionPool:
    """Make a psycopg pool, to be opened with `async with`. Pass None as `answer_seconds` only for commands whose
    statements may take arbitrarily long."""

    async def configure(connection: Connection) -> None:
        try:
            await _set_up(connection, answer_seconds, autocommit=autocommit)
        finally:
            pool.opened += 1

    pool = ConnectionPool(
        conninfo(url),
        connection_class=Connection,
        min_size=1,
        max_size=size,
        open=False,
        timeout=connect_timeout_seconds,
        reconnect_timeout=RECONNECT_SECONDS,
        configure=configure,
        check=_check_from_pool,
        reset=_record_use,
        kwargs={"autocommit": True, **_connect_arguments(connect_timeout_seconds, application_name)},
        name=application_name,
    )
    return pool


async def _check_from_pool(connection: Connection) -> None:
    if not _trusted(connection):
        with connection.answer_timeout(ALIVE_SECONDS):
            await AsyncConnectionPool.check_connection(connection)


async def _record_use(connection: Connection) -> None:
    """Record when the connection was last used. There is nothing to reset.

    The callback makes the pool take connections back in a separate task. In the caller's task, a timeout at that moment
    would lose the connection for good.
    """
    _last_used[connection] = _now()


_last_used: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # CLOCK_BOOTTIME counts while the machine is suspended


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _trusted(connection: Connection) -> bool:
    """Return whether the connection was used a moment ago, and has received no data and no end of stream since then."""
    if connection.closed or _now() - _last_used.get(connection, -math.inf) >= TRUSTED_SECONDS:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


async def connect(
    url: str, *, autocommit: bool = True, connect_timeout_seconds: float = 5.0, application_name: str = "vpm"
) -> Connection:
    """Open a single connection, or raise DatabaseUnreachable or DatabaseRefused."""
    try:
        return await _opened(url, connect_timeout_seconds, ANSWER_SECONDS, application_name, autocommit=autocommit)
    except psycopg.Error as error:
        raise connection_error(url, error) from None


async def _opened(
    url: str, connect_timeout_seconds: float, answer_seconds: float, application_name: str, *, autocommit: bool
) -> Connection:
    arguments = _connect_arguments(connect_timeout_seconds, application_name)
    connection = await Connection.connect(conninfo(url), autocommit=True, **arguments)
    await _set_up(connection, answer_seconds, autocommit=autocommit)
    return connection


async def _set_up(connection: Connection, answer_seconds: float | None, *, autocommit: bool) -> None:
    """Set the session's parameters with a statement, since poolers refuse unknown startup options."""
    connection.answer_seconds = answer_seconds
    # The server's timeout is shorter than ours, so that a slow statement fails with a definite error.
    statement_ms = STATEMENT_TIMEOUT_MS
    if answer_seconds is not None:
        statement_ms = min(statement_ms, round(1000 * max(1.0, answer_seconds - 2)))
    try:
        await connection.execute(
            "SELECT set_config('timezone', 'UTC', false), set_config('statement_timeout', %s, false),"
            " set_config('idle_in_transaction_session_timeout', %s, false)",
            (str(statement_ms), str(IDLE_IN_TRANSACTION_MS)),
        )
        await connection.set_autocommit(autocommit)
    except BaseException:
        await connection.close()  # the caller does not have it yet
        raise


async def check_database(url: str, *, connect_timeout_seconds: float = 5.0) -> None:
    """Raise DatabaseError within seconds if the database cannot be used."""
    connection = await connect(url, connect_timeout_seconds=connect_timeout_seconds, application_name="vpm-check")
    async with connection:
        version = connection.info.server_version
    if version < 150000:
        raise DatabaseRefused(
            f"The database at {redact_url(url)} runs PostgreSQL {version // 10000}; version 15 or newer is required."
        )
    await _require_sessions(url, connect_timeout_seconds)


async def _require_sessions(url: str, connect_timeout_seconds: float) -> None:
    """Refuse a pooler in transaction mode, since leadership, locks and signals need a session.

    Two connections that share a backend reveal such a pooler. Another client may use the shared backend in between, so
    try a few times.
    """
    opened = partial(connect, url, connect_timeout_seconds=connect_timeout_seconds, application_name="vpm-check")
    for _ in range(SESSION_TRIES):
        async with await opened() as one:
            first = await _session_of(one)
            async with await opened() as other:
                if await _session_of(other) == first or await _session_of(one) != first:
                    raise DatabaseRefused(
                        f"The server at {redact_url(url)} shares one session among clients, as PgBouncer does with "
                        "pool_mode = transaction, but leadership, locks and signals need a dedicated session.",
                        hint="Set pool_mode = session for this database, or connect to PostgreSQL directly.",
                    )


async def _session_of(connection: Connection) -> int:
    return int(await connection.fetch_value("SELECT pg_backend_pid()"))


def connection_error(url: str, error: psycopg.Error) -> DatabaseError:
    """Translate a connection error into one of our errors, without the password."""
    where, text = redact_url(url), redact_text(" ".join(str(error).split()))
    if any(each in text for each in ("password authentication failed", "no password supplied", "pg_hba")):
        return DatabaseRefused(f"The database at {where} refused the user or password.", hint="Correct DATABASE_URL.")
    if "does not exist" in text:
        return DatabaseRefused(
            f"The role or database in {where} does not exist.", hint="Create it, or correct DATABASE_URL."
        )
    if "Connection refused" in text:
        return DatabaseUnreachable(
            f"Nothing accepts connections at {where}.", hint="Start PostgreSQL, or correct DATABASE_URL."
        )
    return DatabaseUnreachable(f"The database at {where} cannot be used: {text}.")


def _connect_arguments(connect_timeout_seconds: float, application_name: str) -> dict[str, Any]:
    return {
        "connect_timeout": max(2, round(connect_timeout_seconds)),  # libpq: whole seconds, at least 2
        "application_name": application_name,
        # Detect a dead peer within about 10 s even without traffic.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }

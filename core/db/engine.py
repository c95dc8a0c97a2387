"""Connections: SQLAlchemy engines to read the index by, psycopg pools for all else (decision 22), and clear start-up
errors.

A connection is asked whether it lives before it is handed out, unless it was in use a moment ago and nothing has come
over it since: a server that ends says so, so silence costs no way there and back.

Pools are small on purpose: more than 8 connections per process cost PostgreSQL more than they give. A pool's
`autocommit` saves a round trip pair where one statement is all; never use it for several statements that belong
together.

A server that hangs still takes connections and acknowledges what is sent, so neither its statement timeout nor TCP ends
a wait for it: every wait for an answer has a deadline of ours, and a connection that misses it is given up.

A URL may name several hosts, `postgresql://user:password@one:5432,two:5432/vpm`: a primary and those that may take its
place. Connections then go to the one that can be written to, unless the URL's `target_session_attrs` says otherwise.
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
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from core.errors import ConfigError, DatabaseError, DatabaseRefused, DatabaseUnreachable
from core.log import get_logger, redact_text, redact_url
from core.service.cancelling import cancellation_count

log = get_logger(__name__)
T = TypeVar("T")


class Connection(AsyncConnection[TupleRow]):
    """A connection whose transactions are committed, or raise.

    psycopg lets a transaction block end in silence when its connection was lost and the error of the statement that
    found out was caught inside: code that goes on relies on what was never stored.

    answer_seconds: how long it waits for each answer before it gives up the connection; None: without end.
    """

    answer_seconds: float | None = None
    _giving_up: asyncio.TimerHandle | None = None

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """Wait as the library does; after `answer_seconds` the wait ends with OperationalError."""
        if self.answer_seconds is not None:
            self._give_up_in(self.answer_seconds)
        try:
            return await super().wait(gen, interval, timeout)
        finally:
            if self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the library's own
        """Ask the server to end the statement. The library does so when a wait is cancelled, and would then wait long
        for the end of it: a server that hangs gets a second."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._give_up_in(CANCEL_SECONDS)
        await super().cancel_safe(timeout=min(timeout, CANCEL_SECONDS))

    def _give_up_in(self, seconds: float) -> None:
        self._giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)

    def _give_up(self, seconds: float) -> None:
        """Close the socket under the library, which then finds its connection lost and ends the wait."""
        log.warning(
            "PostgreSQL does not answer; giving up the connection",
            action="database.silent",
            application=self.info.get_parameters().get("application_name"),
            seconds=seconds,
        )
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def answer_timeout(self, seconds: float) -> Iterator[None]:
        """Inside, each answer must come within `seconds`."""
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
            raise psycopg.OperationalError("the connection was lost in a transaction: nothing of it is stored")

    async def fetch_all(
        self, query: QueryNoTemplate, values: Params | None = None, *, prepare: bool | None = None
    ) -> list[TupleRow]:
        """Return every row of a statement."""
        return await (await self.execute(query, values, prepare=prepare)).fetchall()

    async def fetch_one(
        self, query: QueryNoTemplate, values: Params | None = None, *, prepare: bool | None = None
    ) -> TupleRow | None:
        """Return the first row of a statement; None when it has none."""
        return await (await self.execute(query, values, prepare=prepare)).fetchone()

    async def fetch_value(self, query: QueryNoTemplate, values: Params | None = None) -> Any:
        """Return the first column of the first row; None when there is no row."""
        row = await self.fetch_one(query, values)
        return None if row is None else row[0]


class ConnectionPool(AsyncConnectionPool[Connection]):
    """A pool whose callers can be stopped at any moment, also in the one in which their connection comes.

    It waits by `asyncio.wait_for`, which before Python 3.12 keeps quiet about a cancellation in that moment: a worker
    that is stopped because another leads would go on working.
    """

    async def getconn(self, timeout: float | None = None) -> Connection:  # noqa: ASYNC109 - the library's own
        before = cancellation_count()  # not nought for one that was stopped, and puts things in order
        connection = await super().getconn(timeout)
        if cancellation_count() > before:
            await self.putconn(connection)
            raise asyncio.CancelledError
        return connection


# A query of ours that takes longer than this is a fault, not patience.
STATEMENT_TIMEOUT_MS = 30_000
# A server that has said nothing for longer than a statement may take hangs.
ANSWER_SECONDS = STATEMENT_TIMEOUT_MS / 1000 + 5
# Whether a connection lives is answered at once, on however busy a machine.
ALIVE_SECONDS = 2.0
CANCEL_SECONDS = 1.0
# A pool that cannot connect gives up after this, and tries anew when a connection is next asked for. The library's own
# five minutes double its pauses until a server that is back stays unused for a minute.
RECONNECT_SECONDS = 5.0
# No transaction of ours does nothing for so long, unless its process hangs; what it locked, others want.
IDLE_IN_TRANSACTION_MS = 60_000

# A connection that was idle for longer is checked before use: networks drop idle ones without notice.
TRUSTED_SECONDS = 1.0


SESSION_TRIES = 3
# SQLAlchemy is given each connection ready made: of its URL only the dialect and the driver count.
DIALECT = "postgresql+psycopg://"


def conninfo(url: str) -> str:
    """Return the URL as libpq reads it. Of several hosts it takes the one that can be written to, unless it says."""
    target = "postgresql://" + url.partition("://")[2]
    try:
        named = conninfo_to_dict(target)
    except psycopg.Error:
        raise ConfigError("DATABASE_URL cannot be read as a URL.") from None
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
    """Make an engine to read by. It checks a connection before handing it out, so a restarted database costs no error.

    Each statement stands alone, since BEGIN and ROLLBACK around one are two more ways there and back; those that must
    see the same moment ask for `isolation_level="REPEATABLE READ"`.
    """

    async def opened() -> Connection:
        return await _opened(url, connect_timeout_seconds, answer_seconds, application_name, autocommit=False)

    engine = create_async_engine(
        DIALECT,
        async_creator=opened,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=connect_timeout_seconds,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,  # bound values may be addresses or signatures: not for logs
    )
    _check_when_handed_out(engine.sync_engine)
    return engine


def _check_when_handed_out(engine: Engine) -> None:
    @event.listens_for(engine, "checkin")
    def _used(connection: DBAPIConnection | None, _entry: ConnectionPoolEntry) -> None:
        if connection is not None:
            _used_at[engine.dialect.get_driver_connection(connection)] = _now()

    @event.listens_for(engine, "checkout")
    def _check(connection: DBAPIConnection, _entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
        driver = engine.dialect.get_driver_connection(connection)
        opened_for_this = driver not in _used_at
        if opened_for_this or _trusted(driver):
            return
        try:
            with driver.answer_timeout(ALIVE_SECONDS):
                engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # The pool opens another one in its place.
            raise DisconnectionError(str(error)) from error


def make_pool(
    url: str,
    *,
    size: int = 6,
    autocommit: bool = False,
    connect_timeout_seconds: float = 5.0,
    answer_seconds: float | None = ANSWER_SECONDS,
    application_name: str = "vpm",
) -> ConnectionPool:
    """Make a psycopg pool, not yet open: use it as `async with make_pool(...) as pool`. `answer_seconds`: None for a
    command whose statements may take as long as they need."""

    async def configure(connection: Connection) -> None:
        await _set_up(connection, answer_seconds, autocommit=autocommit)

    return ConnectionPool(
        conninfo(url),
        connection_class=Connection,
        min_size=1,
        max_size=size,
        open=False,
        timeout=connect_timeout_seconds,
        reconnect_timeout=RECONNECT_SECONDS,
        configure=configure,
        check=_check_from_pool,
        reset=_given_back,
        kwargs={"autocommit": True, **_connect_arguments(connect_timeout_seconds, application_name)},
        name=application_name,
    )


async def _check_from_pool(connection: Connection) -> None:
    if not _trusted(connection):
        with connection.answer_timeout(ALIVE_SECONDS):
            await AsyncConnectionPool.check_connection(connection)


async def _given_back(connection: Connection) -> None:
    """Note when the connection was last used; there is nothing to reset. With a reset callback the pool takes
    connections back in a separate task. Without one it does so in the caller's, and a caller whose time runs out in
    that instant loses the connection to the pool for good."""
    _used_at[connection] = _now()


_used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the first runs on while a machine is suspended


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _trusted(connection: Connection) -> bool:
    """Return whether it was in use a moment ago and nothing has come over it since: neither its end nor a word of the
    server."""
    if connection.closed or _now() - _used_at.get(connection, -math.inf) >= TRUSTED_SECONDS:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


async def connect(
    url: str, *, autocommit: bool = True, connect_timeout_seconds: float = 5.0, application_name: str = "vpm"
) -> Connection:
    """Open one connection outside any pool; failures are DatabaseUnreachable or DatabaseRefused with one sentence."""
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
    """Set what every session of ours has, by a statement: a pooler refuses startup options that it does not know.

    A connection that cannot be set up is closed, also when this is cancelled: its caller does not have it yet.
    """
    connection.answer_seconds = answer_seconds
    # The server ends what takes too long before we take it for one that hangs: then it is known that it failed.
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
        await connection.close()
        raise


async def check_database(url: str, *, connect_timeout_seconds: float = 5.0) -> None:
    """Fail within seconds, with a sentence, when the database cannot be used."""
    connection = await connect(url, connect_timeout_seconds=connect_timeout_seconds, application_name="vpm-check")
    async with connection:
        version = connection.info.server_version
    if version < 150000:
        raise DatabaseRefused(
            f"The database at {redact_url(url)} is PostgreSQL {version // 10000}; version 15 or newer is needed."
        )
    await _require_sessions(url, connect_timeout_seconds)


async def _require_sessions(url: str, connect_timeout_seconds: float) -> None:
    """Refuse a pooler that gives a session to others between transactions: leadership, locks and notices live in one.

    Two connections show it when both are given the same session. Another client may take the one that was free, so it
    is tried a few times.
    """
    opened = partial(connect, url, connect_timeout_seconds=connect_timeout_seconds, application_name="vpm-check")
    for _ in range(SESSION_TRIES):
        async with await opened() as one:
            first = await _session_of(one)
            async with await opened() as other:
                if await _session_of(other) == first or await _session_of(one) != first:
                    raise DatabaseRefused(
                        f"What answers at {redact_url(url)} gives one session to several clients, as PgBouncer does "
                        "with pool_mode = transaction: leadership, locks and notices need a session of their own.",
                        hint="Set pool_mode = session for this database, or name PostgreSQL itself in DATABASE_URL.",
                    )


async def _session_of(connection: Connection) -> int:
    return int(await connection.fetch_value("SELECT pg_backend_pid()"))


def connection_error(url: str, error: psycopg.Error) -> DatabaseError:
    """Return what a failed connection means, without the password."""
    where = redact_url(url)
    text = redact_text(" ".join(str(error).split()))
    lowered = text.lower()
    if "password authentication failed" in lowered or "no password supplied" in lowered or "pg_hba" in lowered:
        return DatabaseRefused(f"The database at {where} refused the user or password.", hint="Correct DATABASE_URL.")
    if "does not exist" in lowered:
        what = "role" if "role" in lowered else "database"
        return DatabaseRefused(
            f"The {what} named in {where} does not exist.", hint="Create it, or correct DATABASE_URL."
        )
    if "too many" in lowered or "remaining connection slots" in lowered:
        return DatabaseUnreachable(f"The database at {where} has no free connection.", hint="Raise max_connections.")
    if "starting up" in lowered or "shutting down" in lowered:
        return DatabaseUnreachable(f"The database at {where} is starting up or shutting down.")
    if "resolve" in lowered or "name or service not known" in lowered or "nodename" in lowered:
        return DatabaseUnreachable(f"The host of {where} cannot be resolved.", hint="Correct DATABASE_URL.")
    if "timeout" in lowered:
        return DatabaseUnreachable(f"The database at {where} did not answer in time.", hint="Is the host reachable?")
    if "refused" in lowered:
        return DatabaseUnreachable(
            f"Nothing accepts connections at {where}.", hint="Start PostgreSQL, or correct DATABASE_URL."
        )
    return DatabaseUnreachable(f"The database at {where} cannot be used: {text}.")


def _connect_arguments(connect_timeout_seconds: float, application_name: str) -> dict[str, Any]:
    return {
        "connect_timeout": max(2, round(connect_timeout_seconds)),  # libpq: whole seconds, at least 2
        "application_name": application_name,
        # A dead peer is noticed in about 10 s also without traffic.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }

"""Database reads for a request: their time limit, the refusal for a failed read, and tables of literal rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg_pool import PoolTimeout
from sqlalchemy import FromClause, column, func, literal
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.types import TypeEngine

from api.problems import Problem, unavailable
from core.db.engine import ALIVE_SECONDS, Connection, ConnectionPool
from core.errors import DatabaseError
from core.log import get_logger

log = get_logger(__name__)

DATABASE_ERRORS: Final = (SQLAlchemyError, psycopg.Error, DatabaseError, OSError, TimeoutError)
# Less than requests wait for the database, but longer than the check of an idle connection: when it ends, a busy pool
# can be distinguished from a database that does not respond.
FREE_SECONDS = ALIVE_SECONDS + 0.5


@asynccontextmanager
async def reading(
    what: str, *, seconds: float = 5.0, refusal: Callable[[str], Problem] = unavailable
) -> AsyncIterator[None]:
    """Limit the enclosed reads to `seconds`. Turn a database error into a refusal that names `what`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except DATABASE_ERRORS as error:
        log.warning("failed to read the database", action="http.no_database", what=what, why=error)
        raise refusal(f"{what} cannot be loaded right now; try again shortly.") from None


@asynccontextmanager
async def free_connection(pool: ConnectionPool, busy: Callable[[], Problem]) -> AsyncIterator[Connection]:
    """Yield a pooled connection. If none becomes free soon, raise the refusal `busy`; nothing has been written at that
    point. If a connection failed during the wait or is still being opened, raise the PoolTimeout instead: the database
    is down rather than busy."""
    async with AsyncExitStack() as stack:
        failures = _failures(pool)
        try:
            connection = await stack.enter_async_context(pool.connection(FREE_SECONDS))
        except PoolTimeout:
            if _failures(pool) > failures or pool.opening:
                raise
            raise busy() from None
        yield connection


def _failures(pool: ConnectionPool) -> int:
    """Return how many connections have failed so far: while being opened, while being checked, or in use."""
    stats = pool.get_stats()
    return sum(stats.get(name, 0) for name in ("connections_errors", "connections_lost", "returns_bad"))


def unnest_rows(name: str, **columns: tuple[type[TypeEngine[Any]], Iterable[Any]]) -> FromClause:
    """Build an `unnest(...)` table from literal rows, for use in a join.

    Each column is passed as one array parameter. The statement is therefore the same for any number of rows, and is
    prepared only once. A statement with VALUES would be compiled each time.
    """
    arrays = [literal(list(values), ARRAY(kind)) for kind, values in columns.values()]
    names = [column(each, kind) for each, (kind, _) in columns.items()]
    return func.unnest(*arrays).table_valued(*names).render_derived(name=name)

"""Asking the database within a request: a few seconds at most. When it does not answer, `internal_error` says when to
ask again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from psycopg_pool import PoolTimeout

from api.agent.errors import problem
from api.database import reading
from core.db.engine import Connection, ConnectionPool

PATIENCE_SECONDS = 3.0
# Less than the patience, to distinguish a busy pool from a database that does not answer.
FREE_SECONDS = 2.0
AGAIN_SECONDS = 2


def storage(what: str, *, seconds: float = PATIENCE_SECONDS, status: int = 500) -> AbstractAsyncContextManager[None]:
    """`what` cannot be read now, says the refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=AGAIN_SECONDS)
    return reading(what, seconds=seconds, refusal=refusal)


@asynccontextmanager
async def free_connection(pool: ConnectionPool) -> AsyncIterator[Connection]:
    """Yield a connection of the pool; 429 if none is free soon. Nothing was written then."""
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(pool.connection(FREE_SECONDS))
        except PoolTimeout:
            raise problem(
                "rate_limited",
                "Many trades are being checked, and this one was not taken in.",
                hint="Send the same request again; a payment that was accepted before settles all the same.",
                retry_after=AGAIN_SECONDS,
            ) from None
        yield connection

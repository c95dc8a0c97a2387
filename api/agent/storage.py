"""Database access within a request, for a few seconds at most. A failure is answered with `internal_error` and a
Retry-After."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial

from api import database
from api.agent.errors import problem
from api.database import reading
from api.problems import Problem
from core.db.engine import Connection, ConnectionPool

TIMEOUT_SECONDS = 3.0
AGAIN_SECONDS = 2


def storage(what: str, *, seconds: float = TIMEOUT_SECONDS, status: int = 500) -> AbstractAsyncContextManager[None]:
    """Limit the time of the enclosed reads of `what`. If the database fails, raise a retriable refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=AGAIN_SECONDS)
    return reading(what, seconds=seconds, refusal=refusal)


def free_connection(pool: ConnectionPool) -> AbstractAsyncContextManager[Connection]:
    """Yield a connection of the pool. Raise 429 if none is free soon; nothing has been written by then."""
    return database.free_connection(pool, _busy)


def _busy() -> Problem:
    return problem(
        "rate_limited",
        "Too many trades are being checked at the moment, and this one was not accepted.",
        hint="Send the same request again; this does not affect a payment that was accepted before.",
        retry_after=AGAIN_SECONDS,
    )

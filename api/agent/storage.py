"""Database access within a request, for a few seconds at most; `internal_error` with a Retry-After if it fails."""

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
    """Limit the enclosed reads of `what`; a database that fails becomes a retriable refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=AGAIN_SECONDS)
    return reading(what, seconds=seconds, refusal=refusal)


def free_connection(pool: ConnectionPool) -> AbstractAsyncContextManager[Connection]:
    """Yield a connection of the pool; 429 if none is free soon, before anything was written."""
    return database.free_connection(pool, _busy)


def _busy() -> Problem:
    return problem(
        "rate_limited",
        "Too many trades are being checked at the moment, and this one was not accepted.",
        hint="Send the same request again; this does not affect a payment that was accepted before.",
        retry_after=AGAIN_SECONDS,
    )

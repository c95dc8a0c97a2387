"""Asking the database within a request: a few seconds at most, and `internal_error` when it does not answer."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial

from api.agent.errors import problem
from api.unreadable import reading

PATIENCE_SECONDS = 3.0


def storage(
    what: str, *, seconds: float = PATIENCE_SECONDS, status: int = 500, retry_after: int | None = None
) -> AbstractAsyncContextManager[None]:
    """`what` cannot be read now, says the refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=retry_after)
    return reading(what, seconds=seconds, refusal=refusal)

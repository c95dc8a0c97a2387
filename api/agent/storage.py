"""Asking the database within a request: a few seconds at most. When it does not answer, `internal_error` says when to
ask again.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial

from api.agent.errors import problem
from api.database import reading

PATIENCE_SECONDS = 3.0
AGAIN_SECONDS = 2


def storage(what: str, *, seconds: float = PATIENCE_SECONDS, status: int = 500) -> AbstractAsyncContextManager[None]:
    """`what` cannot be read now, says the refusal."""
    refusal = partial(problem, "internal_error", status=status, retry_after=AGAIN_SECONDS)
    return reading(what, seconds=seconds, refusal=refusal)

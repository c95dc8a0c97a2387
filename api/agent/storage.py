"""Asking the database within a request: a few seconds at most, and `internal_error` when it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.agent.errors import problem
from api.unreadable import UNREADABLE
from core.log import get_logger

log = get_logger(__name__)

PATIENCE_SECONDS = 3.0


@asynccontextmanager
async def storage(
    what: str, *, seconds: float = PATIENCE_SECONDS, status: int = 500, retry_after: int | None = None
) -> AsyncIterator[None]:
    """`what` cannot be read now, says the refusal."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except UNREADABLE as error:
        log.warning("the database cannot be read", action="agent.no_database", what=what, why=error)
        why = f"{what} cannot be read now."
        raise problem("internal_error", why, status=status, retry_after=retry_after) from None

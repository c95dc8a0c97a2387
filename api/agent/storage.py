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
async def storage(what: str) -> AsyncIterator[None]:
    """`what` cannot be read now, says the refusal."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except UNREADABLE as error:
        log.warning("the database cannot be read", action="agent.no_database", what=what, why=error)
        raise problem("internal_error", f"{what} cannot be read now.") from None

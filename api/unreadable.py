"""What a database raises that is away, or too slow, whichever driver asked it; what a request says that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from api.http.application import unavailable
from api.http.problem import Problem
from core.errors import DatabaseError
from core.log import get_logger

log = get_logger(__name__)

UNREADABLE: Final = (SQLAlchemyError, psycopg.Error, DatabaseError, OSError, TimeoutError)


@asynccontextmanager
async def reading(
    what: str, *, seconds: float = 5.0, refusal: Callable[[str], Problem] = unavailable
) -> AsyncIterator[None]:
    """The database is asked within, for so many seconds at most. `refusal`: of a sentence, that `what` cannot be read
    now."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except UNREADABLE as error:
        log.warning("the database cannot be read", action="http.no_database", what=what, why=error)
        raise refusal(f"{what} cannot be read now; try again shortly.") from None

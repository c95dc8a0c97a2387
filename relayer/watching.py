"""Looks at the database for ever: one that fails is told, and the next one comes all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg

from core.log import get_logger

log = get_logger(__name__)


async def watch(look: Callable[[], Awaitable[None]], every_seconds: float, *, what: str, action: str) -> None:
    """what: that which cannot be read when a look fails, as a log says it."""
    while True:
        try:
            await look()
        except (psycopg.Error, TimeoutError) as error:
            log.warning(f"{what} cannot be read", action=action, why=error)
        await asyncio.sleep(every_seconds)

"""Waiting for what happens elsewhere: in a database, a chain, another process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> float:
    """Returns how long it took until the condition held; TimeoutError after `seconds`."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)
    return time.monotonic() - started


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something that goes on meanwhile, and is cancelled at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

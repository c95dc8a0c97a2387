"""Waiting for what happens elsewhere: in a database, a chain, another process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from core.service.cancelling import end

# Seconds that a test waits for what must come: several times what a machine needs that is busy with something else, and
# well within the limit of a test. What must come *soon* names its own bound.
PATIENCE = 150.0


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Returns how long it took until the condition held; TimeoutError after `seconds`."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)
    return time.monotonic() - started


def wait(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """`until`, where no event loop runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something that goes on meanwhile, and is cancelled at the end. Raises what it failed with."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end(task)
        with contextlib.suppress(asyncio.CancelledError):
            task.result()

"""Waiting for what happens elsewhere: in a database, a chain, another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> float:
    """Returns how long it took until the condition held; TimeoutError after `seconds`."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)
    return time.monotonic() - started

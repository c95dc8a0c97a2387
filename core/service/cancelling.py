"""Handles cancellations that libraries swallow.

Before Python 3.12 `asyncio.wait_for`, which libraries use, swallows a cancellation that arrives just as its awaitable
finishes. A loop that runs until it is cancelled would then run forever.
"""

from __future__ import annotations

import asyncio
from typing import Any


def cancellation_count() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def raise_if_cancelled() -> None:
    """Raise CancelledError if the current task was cancelled but something swallowed it."""
    if cancellation_count():
        raise asyncio.CancelledError


# Longer than any task needs to clean up (as a relayer does when it releases its lanes), shorter than a lease.
AGAIN_SECONDS = 10.0


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until all have ended. Tasks that keep running are cancelled again."""
    waiting = set(tasks)
    while waiting:
        for each in waiting:
            each.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)

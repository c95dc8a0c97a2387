"""Cancellation that gets lost, and how to notice.

Before Python 3.12 `asyncio.wait_for` swallows a cancellation that comes in the moment the awaited thing is done, and
libraries wait with it: psycopg's pool, which `core.db.engine.ConnectionPool` mends. A loop that runs until it is
cancelled would then run for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any


def cancellation_count() -> int:
    """Return how often the running task was asked to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def raise_if_cancelled() -> None:
    """Raise CancelledError when the running task was asked to stop and something on the way kept quiet about it."""
    if cancellation_count():
        raise asyncio.CancelledError


AGAIN_SECONDS = 10.0
"""Longer than a task needs to leave things in order, such as a relayer to give its lanes back; shorter than a lease."""


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until they have ended, with any result; one that goes on is cancelled again."""
    waiting = set(tasks)
    while waiting:
        for each in waiting:
            each.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)

"""Cancellation that gets lost, and how to notice.

Before Python 3.12 `asyncio.wait_for` swallows a cancellation that comes in the moment the awaited thing is done, and
psycopg waits with it. A loop that runs until it is cancelled would then run for ever.
"""

from __future__ import annotations

import asyncio


def heed_cancellation() -> None:
    """Raises CancelledError when the running task was asked to stop and something on the way kept quiet about it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError

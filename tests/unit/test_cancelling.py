"""A cancellation that something swallowed still ends the task."""

from __future__ import annotations

import asyncio

from core.service.cancelling import heed_cancellation


async def test_a_swallowed_cancellation_is_noticed() -> None:
    rounds = 0

    async def deaf() -> None:
        nonlocal rounds
        while True:
            heed_cancellation()
            rounds += 1
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue  # as wait_for does before Python 3.12 when it is done in the same moment

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=2)
    assert done == {task}
    assert task.cancelled()
    assert rounds > 1


async def test_a_timeout_inside_is_no_cancellation() -> None:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)
    except TimeoutError:
        pass
    heed_cancellation()

"""A cancellation that something swallowed still ends the task."""

from __future__ import annotations

import asyncio

import pytest

from core.service.cancelling import cancel_and_wait, raise_if_cancelled
from tests.waiting import PATIENCE


async def test_a_swallowed_cancellation_is_noticed() -> None:
    rounds = 0

    async def deaf() -> None:
        nonlocal rounds
        while True:
            raise_if_cancelled()
            rounds += 1
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue  # as wait_for does before Python 3.12 when it is done in the same moment

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=PATIENCE)
    assert done == {task}
    assert task.cancelled()
    assert rounds > 1


async def test_a_timeout_inside_is_no_cancellation() -> None:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(1)
    except TimeoutError:
        pass
    raise_if_cancelled()


async def test_a_task_that_has_not_noticed_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.service.cancelling.AGAIN_SECONDS", 0.01)
    came = asyncio.Event()

    async def deaf() -> None:
        await asyncio.wait_for(came.wait(), 60)
        await asyncio.Event().wait()

    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    tasks = [asyncio.create_task(each) for each in (deaf(), fails(), asyncio.sleep(60))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    came.set()
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await cancel_and_wait(*tasks)
    assert [task.cancelled() for task in tasks] == [True, False, True]

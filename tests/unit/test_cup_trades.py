"""Calls that wait anyway are answered together, each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from api.cup.trades import Batcher


class Bench:
    """Work that waits to be let go, and what it was given."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []
        self.go = asyncio.Event()

    async def work(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.given.append(list(numbers))
        await self.go.wait()
        if -2 in numbers:
            raise RuntimeError("all of it")
        return [ValueError(number) if number < 0 else number * 2 for number in numbers]


async def _asked(batches: Batcher[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    """One after the other, each waiting before the next."""
    tasks = []
    for number in numbers:
        tasks.append(asyncio.create_task(batches.ask(number)))
        for _ in range(3):
            await asyncio.sleep(0)
    return tasks


async def test_calls_that_arrive_during_a_batch_form_the_next_one() -> None:
    bench = Bench()
    batches = Batcher(bench.work, most=2)
    tasks = await _asked(batches, 1, 2, 3, 4)
    assert bench.given == [[1]]
    bench.go.set()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert bench.given == [[1], [2, 3], [4]]
    assert await batches.ask(7) == 14


async def test_a_refusal_goes_to_its_caller_and_a_failure_to_all() -> None:
    bench = Bench()
    tasks = await _asked(Batcher(bench.work), 1, 2, -1) + await _asked(Batcher(bench.work), 1, -2, 3)
    bench.go.set()
    good, also, refused, first, failed, failed_too = await asyncio.gather(*tasks, return_exceptions=True)
    assert (good, also, first) == (2, 4, 2)
    assert isinstance(refused, ValueError)
    assert isinstance(failed, RuntimeError)
    assert isinstance(failed_too, RuntimeError)


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    bench = Bench()
    first, gone, waiting = await _asked(Batcher(bench.work), 1, 2, 3)
    first.cancel()
    gone.cancel()
    await asyncio.sleep(0)
    bench.go.set()
    assert await waiting == 6
    assert bench.given == [[1], [2, 3]]
    with pytest.raises(asyncio.CancelledError):
        await first

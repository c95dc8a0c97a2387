"""Batches concurrent calls: one transaction, one thread, one round trip for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """A batcher of calls. The first call runs at once; calls that arrive while a batch runs form the next one.

    `work` returns an answer for each call, in their order. An exception in place of an answer is raised to that caller
    only; one that `work` raises is raised to all callers of the batch. A cancelled caller does not cancel its work.
    """

    def __init__(self, work: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]], most: int = 128) -> None:
        self._work = work
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, asked: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._running is None or self._running.done():
            # The batch works for all callers, so it does not run in the first caller's context.
            self._running = asyncio.create_task(self._run(), context=Context())
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(batch)
        finally:
            left, self._waiting = self._waiting, []
            for _, answer in left:
                answer.cancel()

    async def _answer(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        given: Sequence[A | Exception]
        try:
            given = await self._work([asked for asked, _ in batch])
        except Exception as error:
            given = [error] * len(batch)
        except BaseException:  # the process is ending: callers must not wait forever
            for _, answer in batch:
                answer.cancel()
            raise
        for (_, answer), each in zip(batch, given, strict=True):
            if answer.done():
                continue
            if isinstance(each, Exception):
                answer.set_exception(each)
            else:
                answer.set_result(each)

"""Calls that wait anyway, answered several at a time: one transaction, one thread, one round trip for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Q = TypeVar("Q")
A = TypeVar("A")


class Batches(Generic[K, Q, A]):
    """A gathering of calls by key. The first of a key is worked at once; those that come meanwhile are the next batch.

    `work` gives an answer for each call, in their order; an exception in an answer's place is raised to that caller
    alone, one that `work` raises to all callers of the batch. A caller that goes away takes nothing back.
    """

    def __init__(self, work: Callable[[K, Sequence[Q]], Awaitable[Sequence[A | Exception]]], most: int = 128) -> None:
        self._work = work
        self._most = most
        self._waiting: dict[K, list[tuple[Q, asyncio.Future[A]]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, key: K, asked: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((asked, answer))
        else:
            self._waiting[key] = [(asked, answer)]
            # It works for others as well: not in the context of who happened to come first.
            task = asyncio.create_task(self._run(key), context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await answer

    async def _run(self, key: K) -> None:
        try:
            while waiting := self._waiting[key]:
                batch, self._waiting[key] = waiting[: self._most], waiting[self._most :]
                await self._answer(key, batch)
        finally:
            for _, answer in self._waiting.pop(key):
                answer.cancel()

    async def _answer(self, key: K, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        given: Sequence[A | Exception]
        try:
            given = await self._work(key, [asked for asked, _ in batch])
        except Exception as error:
            given = [error] * len(batch)
        except BaseException:  # the process ends: whoever waits must not wait for ever
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

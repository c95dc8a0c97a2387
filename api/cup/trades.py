"""Checks and places signed trades in batches. A batch checks and places all waiting trades with one thread, one round
trip and one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Generic, TypeVar

from api.cup import requests
from core.cup import books, trading
from core.cup.books import PaperMarket
from core.cup.trading import PaperOrder, PlacedTrade
from core.db.engine import ConnectionPool

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Runs calls in batches. The first call runs at once; calls that arrive while a batch runs form the next batch.

    `work` returns a result or an exception for each call, in order. An exception that `work` raises goes to all callers
    of the batch. Cancelling a caller does not cancel its work.
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
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(batch)
        finally:  # if the process is ending, callers must not wait forever
            left, self._waiting = self._waiting, []
            for _, answer in (*batch, *left):
                answer.cancel()  # no effect on a call that has its answer

    async def _answer(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        given: Sequence[A | Exception]
        try:
            given = await self._work([asked for asked, _ in batch])
        except Exception as error:
            given = [error] * len(batch)
        for (_, answer), each in zip(batch, given, strict=True):
            if answer.done():
                continue
            if isinstance(each, Exception):
                answer.set_exception(each)
            else:
                answer.set_result(each)


@dataclass(frozen=True, slots=True)
class CheckedTrade:
    """The result of checking a trade. `market`: None if the slug is unknown. `earlier`: the trade already placed with
    the same id, if any."""

    signed: bool
    market: PaperMarket | None
    earlier: PlacedTrade | None


def message_of(order: PaperOrder) -> str:
    """Return the message that the order's wallet must have signed."""
    return requests.trade_message(
        order.wallet, order.slug, order.side, order.size_cents, order.trade_id, order.issued_at
    )


async def check_trades(pool: ConnectionPool, orders: Sequence[PaperOrder]) -> list[CheckedTrade | Exception]:
    """Check trades before anything is written. Signatures are checked in a thread, off the event loop."""
    signed, (markets, earlier) = await asyncio.gather(asyncio.to_thread(_signed, orders), _read(pool, orders))
    return [
        CheckedTrade(right, markets.get(order.slug), earlier.get(order.trade_id))
        for order, right in zip(orders, signed, strict=True)
    ]


async def _read(
    pool: ConnectionPool, orders: Sequence[PaperOrder]
) -> tuple[dict[str, PaperMarket], dict[str, PlacedTrade]]:
    async with pool.connection() as connection:
        markets = await books.find_all(connection, {order.slug for order in orders})
        return markets, await trading.find_trades(connection, [order.trade_id for order in orders])


def _signed(orders: Sequence[PaperOrder]) -> list[bool]:
    return [requests.signer_of(message_of(order), order.signature) == order.wallet for order in orders]

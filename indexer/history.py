"""Fetches history in pages as wide as the node allows, several at once, and yields the pages in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.events import UndecodableLog
from core.service.cancelling import cancel_and_wait
from indexer.errors import NodeFault
from indexer.fetch import Fetcher
from indexer.fold.rows import Page

T = TypeVar("T")

# Measured: larger pages are slower and take more memory; with smaller ones transactions cost more.
LOGS_PER_PAGE = 4_000
IN_FLIGHT = 3
PAGES_AT_ONCE = 4
"""Pages written in one transaction: the fold of one overlaps with the writing of the one before."""
THIN_LOGS = LOGS_PER_PAGE // 20
THIN_IN_FLIGHT = 10
"""Pages in flight while they hold few logs. They take little memory, and waiting for the node takes most of the
time."""
WIDEST_BLOCKS = 10_000

TOO_MUCH = (RpcErrorKind.RANGE_TOO_WIDE, RpcErrorKind.TIMEOUT)
"""Refusals after which fewer blocks are asked for."""


@dataclass(slots=True)
class Width:
    """The width of the next page in blocks, and the number of pages to fetch at once (`in_flight`). Pages get wider
    while they hold few logs. They get narrower when they hold many logs or the node refuses one.

    `ceiling` is the widest page that the node is known to accept. Because a refusal may have been temporary, each page
    of that width raises the ceiling by an eighth, up to `widest`.
    """

    blocks: int = 64
    ceiling: int = WIDEST_BLOCKS
    in_flight: int = IN_FLIGHT
    widest: int = WIDEST_BLOCKS

    def succeeded(self, blocks: int, logs: int) -> None:
        """Record that a page of `blocks` blocks held `logs` logs. The next page should hold LOGS_PER_PAGE logs, but is
        at most twice as wide."""
        if blocks >= self.ceiling:
            self.ceiling = min(self.widest, blocks + max(1, blocks // 8))
        self.in_flight = THIN_IN_FLIGHT if logs <= THIN_LOGS else IN_FLIGHT
        fitting = blocks * LOGS_PER_PAGE // logs if logs else blocks * 2
        self.blocks = max(1, min(fitting, blocks * 2, self.ceiling))

    def failed(self, blocks: int) -> None:
        self.in_flight = IN_FLIGHT
        self.ceiling = max(1, min(self.ceiling, blocks - 1, blocks // 2))
        self.blocks = min(self.blocks, self.ceiling)


async def pages(fetcher: Fetcher, first: int, last: int, width: Width) -> AsyncGenerator[Page, None]:
    """Yield the blocks from `first` to `last` as consecutive pages. Close the generator to cancel pending requests."""
    in_flight: deque[asyncio.Task[Page]] = deque()
    next_block = first
    try:
        while next_block <= last or in_flight:
            while next_block <= last and len(in_flight) < width.in_flight:
                until = min(last, next_block + width.blocks - 1)
                in_flight.append(asyncio.create_task(_page(fetcher, next_block, until, width)))
                next_block = until + 1
            yield await in_flight.popleft()
    finally:
        await cancel_and_wait(*in_flight)


async def _page(fetcher: Fetcher, first: int, last: int, width: Width) -> Page:
    try:
        page = await fetcher.fetch_history(first, last)
    except RpcError as error:
        if error.kind not in TOO_MUCH or first == last:
            raise
    else:
        width.succeeded(last - first + 1, len(page.logs))
        return page
    width.failed(last - first + 1)
    middle = (first + last) // 2
    lower = await _page(fetcher, first, middle, width)
    upper = await _page(fetcher, middle + 1, last, width)
    return Page(first, upper.end, lower.blocks + upper.blocks, lower.logs + upper.logs)


async def batches(history: AsyncGenerator[Page, None]) -> AsyncGenerator[list[Page], None]:
    """Yield pages in batches that are written together. If a page fails, first yield the pages fetched before it."""
    batch: list[Page] = []
    async with aclosing(history):
        try:
            async for page in history:
                batch.append(page)
                if len(batch) == PAGES_AT_ONCE:
                    yield batch
                    batch = []
        except (RpcError, NodeFault, UndecodableLog):
            if batch:
                yield batch
            raise
    if batch:
        yield batch


async def one_ahead(batches: AsyncGenerator[list[T]]) -> AsyncGenerator[list[T]]:
    """Yield the batches unchanged. Read each batch while the caller works on the previous one."""
    async with aclosing(batches):
        following = asyncio.ensure_future(anext(batches, None))
        try:
            while (batch := await following) is not None:
                following = asyncio.ensure_future(anext(batches, None))
                yield batch
        finally:
            await cancel_and_wait(following)  # its error, if any, was raised when it was awaited

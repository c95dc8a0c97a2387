"""Fetches history in pages, several in flight, as wide as the node allows, and yields them in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from core.chain.errors import RpcError, RpcErrorKind
from core.service.cancelling import cancel_and_wait
from indexer.fetch import Fetcher
from indexer.logs import Page

# Measured: larger pages are slower and take more memory; with smaller ones the transactions cost more.
LOGS_PER_PAGE = 4_000
IN_FLIGHT = 3
THIN_LOGS = LOGS_PER_PAGE // 20
THIN_IN_FLIGHT = 10
"""Pages in flight while they hold few logs: the node's latency then takes the time, and they take little memory."""
WIDEST_BLOCKS = 10_000

TOO_MUCH = (RpcErrorKind.RANGE_TOO_WIDE, RpcErrorKind.TIMEOUT)
"""Refusals after which fewer blocks are asked for."""


@dataclass(slots=True)
class Width:
    """The width of the next page, in blocks: it grows while pages hold few logs, and shrinks when they hold many or are
    refused. `in_flight`: pages fetched at once. `ceiling`: the widest page the node was last seen to accept. A refusal
    may have been temporary, so pages as wide as the ceiling raise it again, by an eighth each time. `widest`: the limit
    that is never exceeded."""

    blocks: int = 64
    ceiling: int = WIDEST_BLOCKS
    in_flight: int = IN_FLIGHT
    widest: int = WIDEST_BLOCKS

    def succeeded(self, blocks: int, logs: int) -> None:
        """Note that a page of `blocks` held `logs`: aim the next ones at LOGS_PER_PAGE, at most doubling at a time."""
        if blocks >= self.ceiling:
            self.ceiling = min(self.widest, blocks + max(1, blocks // 8))
        self.in_flight = THIN_IN_FLIGHT if logs <= THIN_LOGS else IN_FLIGHT
        fitting = blocks * LOGS_PER_PAGE // logs if logs else blocks * 2
        self.blocks = max(1, min(fitting, blocks * 2, self.ceiling))

    def failed(self, blocks: int) -> None:
        """Note that a page of `blocks` was too much for the node."""
        self.in_flight = IN_FLIGHT
        self.ceiling = max(1, min(self.ceiling, blocks - 1, blocks // 2))
        self.blocks = min(self.blocks, self.ceiling)


async def pages(fetcher: Fetcher, first: int, last: int, width: Width) -> AsyncGenerator[Page, None]:
    """Yield the blocks from `first` to `last` as consecutive pages. Close it to stop what is in flight."""
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

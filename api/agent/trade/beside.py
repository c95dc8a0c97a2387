"""Work that goes on beside other work, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from core.service.cancelling import end

T = TypeVar("T")


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Begins the work at once. Who leaves without awaiting it needs neither its result nor its failure."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        await end(task)

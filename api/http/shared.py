"""An answer that costs something to get, asked for once for all who want it within some seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """An asking that all share who come while it lasts, or within `seconds` of its beginning. `ask` should not fail."""

    def __init__(self, ask: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._asking: asyncio.Future[T] | None = None
        self._began = 0.0

    async def get(self) -> T:
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._began >= self._seconds):
            self._asking, self._began = asyncio.ensure_future(self._ask()), now
        return await asyncio.shield(self._asking)  # who goes away does not take it from the others

"""What costs too much to be made at every start, and is the same ever after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """A value that is made when it is first asked for, once, in a thread: nobody else waits meanwhile."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._making = asyncio.Lock()

    async def get(self) -> T:
        async with self._making:
            if not self._made:
                self._made.append(await asyncio.to_thread(self._make))
        return self._made[0]

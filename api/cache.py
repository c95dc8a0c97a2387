"""Values kept in memory for the next request: bounded by size, current for one version or for some seconds.

Each forgets the least recently used value first, so memory grows with what is in demand, not with all that exists.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(LRUCache[K, V]):
    """An LRU cache bounded by the sizes of its values. It does not keep a value larger than the whole cache."""

    def __setitem__(self, key: K, value: V) -> None:
        try:
            super().__setitem__(key, value)
        except ValueError:  # larger than the whole cache
            self.pop(key, None)


class VersionedCache(Generic[K, V]):
    """Values by key, each current for one version: made once for all callers, and again when the version has changed.

    size: the size of one value; without it the cache is bounded by the number of values.
    """

    def __init__(self, maxsize: float, size: Callable[[V], float] | None = None) -> None:
        self._entries: SizedCache[K, tuple[Hashable, V]] = SizedCache(
            maxsize, None if size is None else lambda entry: size(entry[1])
        )
        self._making: dict[K, tuple[Hashable, asyncio.Task[V]]] = {}

    async def get(self, key: K, version: Callable[[], Hashable], make: Callable[[], Awaitable[V]]) -> V:
        """Return the value of the present version. `make` must read nothing newer than `version` says.

        One value of a key is made at a time. Callers of the same version wait for it, later ones for the next; an error
        goes to those who waited.
        """
        while True:
            current = version()
            entry = self._entries.get(key)
            if entry is not None and entry[0] == current:
                return entry[1]
            if key not in self._making:
                task = _shared_task(self._make(key, current, make), lambda: self._making.pop(key))
                self._making[key] = (current, task)
            made_for, task = self._making[key]
            if made_for == current:
                return await asyncio.shield(task)
            await asyncio.wait((task,))

    async def _make(self, key: K, version: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        value = await make()
        self._entries[key] = (version, value)
        return value


class TimedValue(Generic[V]):
    """One value, made again once it is older than `seconds`, for ever by default.

    Until it is older than `oldest_seconds`, callers get the old one while the next is made. Its age counts from the
    start of making it: a source that hangs may answer with what was true when it was asked. An error goes to those who
    waited.
    """

    def __init__(
        self, make: Callable[[], Awaitable[V]], seconds: float = math.inf, oldest_seconds: float = 0.0
    ) -> None:
        self.value: V | None = None
        self._make = make
        self._seconds = seconds
        self._oldest_seconds = oldest_seconds
        self._began_at = 0.0
        self._making: asyncio.Task[V] | None = None

    async def get(self) -> V:
        """Return the value, made first where it is missing or too old."""
        age = time.monotonic() - self._began_at
        if self.value is not None and age < self._seconds:
            return self.value
        if self._making is None:
            self._making = _shared_task(self._run(), self._end)
        if self.value is not None and age < self._oldest_seconds:
            return self.value
        return await asyncio.shield(self._making)

    async def _run(self) -> V:
        began_at = time.monotonic()
        self.value = value = await self._make()
        self._began_at = began_at
        return value

    def _end(self) -> None:
        self._making = None


def _shared_task(work: Coroutine[Any, Any, V], at_end: Callable[[], object]) -> asyncio.Task[V]:
    """Start a task that callers await shielded, so that one who leaves does not cancel it for the others."""

    def end(task: asyncio.Task[V]) -> None:
        at_end()
        if not task.cancelled():
            task.exception()  # those who waited have it

    task = asyncio.create_task(work)
    task.add_done_callback(end)
    return task

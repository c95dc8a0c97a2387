"""What costs something to make: made once for all who come meanwhile, and given again while it will do."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedSlot(ABC, Generic[T]):
    """The last of its kind that was made, and the making that is under way, one at a time. A failure is told to who
    waited; the next one makes it anew."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self.value: T | None = None
        self._make = make
        self._making: asyncio.Task[T] | None = None

    @abstractmethod
    async def get(self) -> T:
        """It as it will do, made first where it must be."""

    def _begin(self) -> asyncio.Task[T]:
        self._making = asyncio.create_task(self._run())
        self._making.add_done_callback(self._end)
        return self._making

    async def _run(self) -> T:
        self.value = made = await self._make()
        return made

    def _end(self, making: asyncio.Task[T]) -> None:
        self._making = None
        if not making.cancelled():
            making.exception()  # whoever waited has it


class Shared(SharedSlot[T]):
    """One thing, made again when it is older than `seconds`. Where it will do for longer, up to `oldest_seconds`, who
    comes meanwhile is given the old one and waits for nothing. It is as old as the question: what hangs may answer with
    what was so when it was asked."""

    def __init__(self, make: Callable[[], Awaitable[T]], seconds: float, oldest_seconds: float = 0.0) -> None:
        super().__init__(make)
        self._seconds = seconds
        self._oldest_seconds = oldest_seconds
        self._made_at = 0.0

    async def get(self) -> T:
        age = time.monotonic() - self._made_at
        if self.value is not None and age < self._seconds:
            return self.value
        making = self._making or self._begin()
        if self.value is not None and age < self._oldest_seconds:
            return self.value
        # Shielded: one client that goes away must not cancel it for the others.
        return await asyncio.shield(making)

    async def _run(self) -> T:
        asked_at = time.monotonic()
        made = await super()._run()
        self._made_at = asked_at
        return made


class Renewed(SharedSlot[T]):
    """One thing, made again when `stamp()` differs from the one it was made at.

    `make` must read nothing newer than its stamp says and should not fail: what it reads is in memory. Callers that
    come while it is made wait for the same, and for the next one if the stamp has changed since it began.
    """

    def __init__(self, stamp: Callable[[], Hashable], make: Callable[[], Awaitable[T]]) -> None:
        super().__init__(make)
        self._stamp = stamp
        self._made_at: Hashable = None
        self._making_at: Hashable = None

    async def get(self) -> T:
        while True:
            stamp = self._stamp()
            if self.value is not None and self._made_at == stamp:
                return self.value
            if self._making is None:
                self._making_at = stamp
                self._begin()
            assert self._making is not None
            if self._making_at == stamp:
                return await asyncio.shield(self._making)
            await asyncio.wait((self._making,))

    async def _run(self) -> T:
        made = await super()._run()
        self._made_at = self._making_at
        return made


class Slots(Generic[K, T]):
    """Slots by key, of which all who ask for one key find the same for as long as anybody waits for it or keeps it.

    `keep` is told each that was got, once there is something in it: so a refusal takes nobody's place. How many are
    kept, and how large, is its affair.
    """

    def __init__(self, keep: Callable[[K, SharedSlot[T], T], object]) -> None:
        self._keep = keep
        self._slots: WeakValueDictionary[K, SharedSlot[T]] = WeakValueDictionary()

    async def get(self, key: K, begin: Callable[[], SharedSlot[T]]) -> T:
        """`begin` makes the one of this key where there is none."""
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = begin()
        made = await slot.get()
        self._keep(key, slot, made)
        return made

"""Settled markets that are not held with the present ones: read from the database when somebody asks for one, and kept
while they are asked for.

Memory goes by what is asked for, not by how many markets there ever were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.kept import Kept

MAX_KEPT = 500
READ_AT_ONCE = 500
READ_SECONDS = 5.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# In one statement, since each sees a moment of its own.
LoadRows = Callable[[AsyncConnection, Sequence[K]], Awaitable[Mapping[K, V]]]


class Archive(Generic[K, V]):
    """A bounded cache before the settled markets' rows; what is asked for least lately is forgotten first.

    Whoever follows the index says which rows have changed (`forget`), or that any may have (`forget_all`). What was
    being read meanwhile is given to who asked and not kept: it may be older than the change.
    """

    def __init__(self, engine: AsyncEngine, load: LoadRows[K, V], *, most: int = MAX_KEPT) -> None:
        self._engine = engine
        self._load = load
        self._kept: Kept[K, V] = Kept(most)
        self._changes = 0

    def forget(self, keys: Iterable[K]) -> None:
        self._changes += 1
        for key in keys:
            self._kept.drop(key)

    def forget_all(self) -> None:
        self._changes += 1
        self._kept.clear()

    def kept(self, key: K) -> V | None:
        """What is in memory of it, without asking the database."""
        return self._kept.get(key)

    async def of(self, keys: Iterable[K]) -> dict[K, V]:
        """Those of these that are settled. Raises what UNREADABLE names when some must be read and cannot be."""
        asked = dict.fromkeys(keys)
        rows = {key: value for key in asked if (value := self.kept(key)) is not None}
        missing = [key for key in asked if key not in rows]
        for start in range(0, len(missing), READ_AT_ONCE):
            rows |= await self._read(missing[start : start + READ_AT_ONCE])
        return rows

    async def _read(self, keys: Sequence[K]) -> Mapping[K, V]:
        changes = self._changes
        async with asyncio.timeout(READ_SECONDS), self._engine.connect() as connection:
            read = await self._load(connection, keys)
        if changes == self._changes:
            for key, value in read.items():
                self._kept.put(key, value)
        return read

"""What was made once and may be asked for again, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key: at most so many, and together no larger than the room there is, whatever one of them takes; where
    they are told without their size only the number counts. What was asked for least lately is forgotten first, the
    newest never."""

    def __init__(self, most: int, room: int = 0) -> None:
        self._most = most
        self._room = room
        self._taken = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def values(self) -> Iterator[V]:
        return (value for value, _ in self._kept.values())

    def get(self, key: K) -> V | None:
        entry = self._kept.get(key)
        if entry is None:
            return None
        self._kept.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, size: int = 0) -> list[K]:
        """Returns the keys that were forgotten for it."""
        entry = self._kept.get(key)
        if entry is not None and entry[0] is value and entry[1] == size:  # as a rule, on the way of every answer
            self._kept.move_to_end(key)
            return []
        self.drop(key)
        self._kept[key] = (value, size)
        self._taken += size
        forgotten: list[K] = []
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._taken > self._room):
            oldest, (_, freed) = self._kept.popitem(last=False)
            self._taken -= freed
            forgotten.append(oldest)
        return forgotten

    def drop(self, key: K) -> None:
        self._taken -= self._kept.pop(key, (None, 0))[1]

    def clear(self) -> None:
        self._kept.clear()
        self._taken = 0

"""Bodies of reads, each rendered once for a state of the index and then served from memory with an ETag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

from aiohttp import web

from api.agent.index import AgentIndex
from api.http.rendered import BodySlot
from api.kept import Kept

# May be kept by anybody, and is asked for again each time: what changed nothing costs a 304.
SHARED = "public, no-cache"
# Names a wallet: for the caller's own cache only.
OWN = "private, no-cache"
HELD, HELD_BYTES = 512, 4_000_000
# The books of those who have thousands of positions. In the room of the others one would take that of very many.
LARGE_BYTES, LARGE_ROOM = 1_000_000, 16_000_000

Render = Callable[[], Awaitable[bytes] | bytes]


class HeldBodies:
    """The rendered bodies of one endpoint, by what was asked; those asked for least lately are forgotten.

    A body is rendered anew whenever the index may have changed, once for all who wait for it; one that raises is not
    kept. Large ones have room of their own.
    """

    def __init__(self, index: AgentIndex, cache_control: str) -> None:
        self._index = index
        self._cache_control = cache_control
        self._slots: Kept[Hashable, BodySlot] = Kept(HELD, HELD_BYTES)
        self._large: Kept[Hashable, BodySlot] = Kept(HELD, LARGE_ROOM)
        self._first: dict[Hashable, BodySlot] = {}

    async def answer(self, request: web.Request, asked: Hashable, render: Render) -> web.StreamResponse:
        """`render` is the same for equal `asked`."""
        slot = self._slots.get(asked) or self._large.get(asked) or self._first.get(asked)
        if slot is None:
            slot = self._first[asked] = BodySlot(lambda: self._index.tick, render, self._cache_control)
        try:
            rendered = await slot.get()
        finally:
            self._first.pop(asked, None)
        is_large = rendered.size > LARGE_BYTES
        room, other = (self._large, self._slots) if is_large else (self._slots, self._large)
        other.drop(asked)
        room.put(asked, slot, rendered.size)  # once it is there: a refusal takes nobody's place
        return rendered.answer(request)

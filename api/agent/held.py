"""Bodies of reads, each rendered once for a state of the index and then served from memory with an ETag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable

from aiohttp import web

from api.agent.index import AgentIndex
from api.http.rendered import BodySlot, Rendered
from api.http.shared import SharedSlot, Slots
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
        self._slots: Slots[Hashable, Rendered] = Slots(self._keep)
        self._kept: Kept[Hashable, SharedSlot[Rendered]] = Kept(HELD, HELD_BYTES)
        self._large: Kept[Hashable, SharedSlot[Rendered]] = Kept(HELD, LARGE_ROOM)

    async def answer(self, request: web.Request, asked: Hashable, render: Render) -> web.StreamResponse:
        """`render` is the same for equal `asked`."""
        rendered = await self._slots.get(asked, lambda: BodySlot(lambda: self._index.tick, render, self._cache_control))
        return rendered.answer(request)

    def _keep(self, asked: Hashable, slot: SharedSlot[Rendered], rendered: Rendered) -> None:
        is_large = rendered.size > LARGE_BYTES
        room, other = (self._large, self._kept) if is_large else (self._kept, self._large)
        other.drop(asked)
        room.put(asked, slot, rendered.size)

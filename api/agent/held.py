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

Render = Callable[[], Awaitable[bytes] | bytes]


class HeldBodies:
    """The rendered bodies of one endpoint, by what was asked; those asked for least lately are forgotten.

    A body is rendered anew whenever the index may have changed; a rendering that raises is not kept.
    """

    def __init__(self, index: AgentIndex, cache_control: str) -> None:
        self._index = index
        self._cache_control = cache_control
        self._slots: Kept[Hashable, BodySlot] = Kept(HELD, HELD_BYTES)

    async def answer(self, request: web.Request, asked: Hashable, render: Render) -> web.StreamResponse:
        """`render` is the same for equal `asked`."""
        slot = self._slots.get(asked) or BodySlot(lambda: self._index.tick, render, self._cache_control)
        rendered = await slot.get()
        self._slots.put(asked, slot, rendered.size)  # once it is there: a refusal takes nobody's place
        return rendered.answer(request)

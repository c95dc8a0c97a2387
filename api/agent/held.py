"""Bodies of reads, each rendered once for a state of the index and then served from memory with an ETag."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from aiohttp import web

from api.http.rendered import BodySlot

# May be kept by anybody, and is asked for again each time: what changed nothing costs a 304.
SHARED = "public, no-cache"
# Names a wallet: for the caller's own cache only.
OWN = "private, no-cache"

Render = Callable[[], Awaitable[bytes] | bytes]


class HeldBodies:
    """The rendered bodies of one endpoint, by what was asked; beyond `most` the least asked for are forgotten.

    `stamp` differs whenever a body may; a rendering that raises is not kept.
    """

    def __init__(self, stamp: Callable[[], Hashable], cache_control: str, *, most: int = 512) -> None:
        self._stamp = stamp
        self._cache_control = cache_control
        self._most = most
        self._slots: OrderedDict[Hashable, BodySlot] = OrderedDict()

    async def answer(self, request: web.Request, asked: Hashable, render: Render) -> web.StreamResponse:
        """`render` is the same for equal `asked`."""
        slot = self._slots.get(asked)
        if slot is None:
            slot = BodySlot(self._stamp, render, self._cache_control)
            rendered = await slot.get()  # before it is kept: a refusal takes nobody's place
            self._slots[asked] = slot
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        else:
            self._slots.move_to_end(asked)
            rendered = await slot.get()
        return rendered.answer(request)

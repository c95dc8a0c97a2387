"""Bodies that are still on their way when their request is answered: waited for, but not for long, and not for many.

A connection that announces a body and keeps it back costs its sender nothing, and us the connection and what has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from api.http.places import NoPlace, Places
from api.http.problem import Problem

# For a whole body: the largest that any operation takes is 64 KiB.
SECONDS = 10.0
MAX_AT_ONCE = 2_000
MAX_EACH = 32


class Arriving:
    """The bodies that are on their way. `caller` tells whose a request is."""

    def __init__(self, caller: Callable[[web.Request], str]) -> None:
        self._caller = caller
        self._places = Places(MAX_AT_ONCE, MAX_EACH)

    async def read(self, request: web.Request) -> bytes:
        try:
            with self._places.taken(self._caller(request)):
                return await _in_time(request)
        except NoPlace as none:
            raise none.refusal(
                f"At most {MAX_EACH} bodies of one address are waited for at once, and a third of all of one network.",
                "Too many bodies are on their way.",
                code="unavailable",
                seconds=round(SECONDS),
            ) from None


ARRIVING = web.AppKey("arriving", Arriving)


async def whole_body(request: web.Request) -> bytes:
    """The body of a request. 408 for one that does not come, 429 where too many of its caller do not."""
    if request.content.is_eof():  # as nearly always
        return await request.read()
    arriving = request.app.get(ARRIVING)
    return await (_in_time(request) if arriving is None else arriving.read(request))


async def _in_time(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(SECONDS):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "invalid_request", f"The body did not come within {SECONDS:g} s.") from None

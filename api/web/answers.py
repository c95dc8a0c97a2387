"""Pages as they go out: kept until what they show changes, with a strict Content-Security-Policy and a strong ETag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from aiohttp import web

from api.http.operation import Handler
from api.http.problem import Problem
from api.http.rendered import Rendered
from api.kept import Kept

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
# Asked again each time, and answered 304 while nothing has changed.
REVALIDATE = "no-cache"
# What names an address is for the caller's own cache only.
PRIVATE = "private, no-cache"
# What changes only when a new version is served.
FIXED = "public, max-age=300"
HELD, HELD_BYTES = 512, 8_000_000

SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "manifest-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class HeldPages:
    """The last rendering of each page, by its address; rendered again when its stamp differs."""

    def __init__(self) -> None:
        self._pages: Kept[Hashable, tuple[Hashable, Rendered]] = Kept(HELD, HELD_BYTES)

    async def get(
        self,
        page: Hashable,
        stamp: Hashable,
        render: Callable[[], Awaitable[bytes]],
        cache: str = REVALIDATE,
        content_type: str = HTML,
    ) -> Rendered:
        kept = self._pages.get(page)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        rendered = await Rendered.make(await render(), cache, content_type=content_type)
        self._pages.put(page, (stamp, rendered), rendered.size)
        return rendered


async def fixed(body: bytes, content_type: str) -> Handler:
    """Answers everybody with the same bytes, rendered once."""
    rendered = await Rendered.make(body, FIXED, content_type=content_type)

    async def serve(request: web.Request) -> web.StreamResponse:
        return rendered.response(request)

    return serve


T = TypeVar("T")


def or_none(read: Callable[[], T]) -> T | None:
    """What is read for a page, or None: one part that cannot be read now must not take the others away."""
    try:
        return read()
    except Problem:
        return None


def html(request: web.Request, page: Rendered, status: int = 200) -> web.Response:
    response = page.response(request, status)
    response.headers.update(SECURITY)
    return response

"""What all pages share: what they are asked, what they read, and the headers they go out with."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

from api.caching import Rendered
from api.operations import Handler
from api.problems import Problem
from core.money import loads, to_json

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
# Asked again each time, and answered 304 while nothing has changed.
REVALIDATE = "no-cache"
# What names an address is for the caller's own cache only.
PRIVATE = "private, no-cache"
# What changes only when a new version is served.
FIXED = "public, max-age=300"

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


async def fixed(body: bytes, content_type: str) -> Handler:
    """Answers everybody with the same bytes, rendered once."""
    rendered = await Rendered.make(body, FIXED, content_type=content_type)

    async def serve(request: web.Request) -> web.StreamResponse:
        return rendered.response(request)

    return serve


T = TypeVar("T")


ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{40}")


def owner_of(request: web.Request) -> str | None:
    """Return the address that a page is asked about, in lower case; None when there is none."""
    given = request.query.get("owner", "").strip()
    return given.lower() if ADDRESS.fullmatch(given) else None


def or_none(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None if it fails: one unavailable part must not take down the whole page."""
    try:
        return read()
    except Problem:
        return None


async def await_or_none(reading: Awaitable[T]) -> T | None:
    """Do the same for an awaitable."""
    try:
        return await reading
    except Problem:
        return None


def exact(body: object) -> Any:
    """A body of the API as a page reads it: with its exact numbers."""
    return loads(to_json(body))

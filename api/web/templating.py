"""The rendering of pages with Jinja2. Pages are cached until their content changes, and sent with a strict
Content-Security-Policy and a strong ETag. Values are escaped unless a function returned them as markup."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from api.caching import Rendered, VersionedCache
from api.operations import Handler
from api.problems import Problem
from api.web import figures
from api.web.assets import Assets
from core.money import loads, to_json

T = TypeVar("T")

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
# Revalidated each time, and answered 304 while unchanged.
REVALIDATE = "no-cache"
# Only the caller may cache a page about an address.
PRIVATE = "private, no-cache"
# Changes only with a new version of the service.
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
    """Make a handler that always returns these bytes."""
    rendered = await Rendered.make(body, FIXED, content_type=content_type)

    async def serve(request: web.Request) -> web.StreamResponse:
        return rendered.response(request)

    return serve


ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{40}")


def owner_of(request: web.Request) -> str | None:
    """Return the owner's address from the query, in lower case."""
    text = request.query.get("owner", "").strip()
    return text.lower() if ADDRESS.fullmatch(text) else None


def or_none(read: Callable[[], T]) -> T | None:
    """Return the result of `read`, or None if it raises a Problem: one unavailable part must not take down the page."""
    try:
        return read()
    except Problem:
        return None


async def await_or_none(reading: Awaitable[T]) -> T | None:
    """Return an awaitable's result, or None if it raises a Problem, as `or_none` does."""
    try:
        return await reading
    except Problem:
        return None


def exact(body: object) -> Any:
    """Convert a body to builtins for a template, with exact numbers."""
    return loads(to_json(body))


TEMPLATES = Path(__file__).parent / "templates"
CACHED_BYTES = 8_000_000

NAVIGATION = (
    ("/", "Markets"),
    ("/positions", "Portfolio"),
    ("/cup", "Cup"),
    ("/roulette", "Roulette"),
    ("/proof", "Proof"),
    ("/how", "How"),
    ("/docs", "Docs"),
)


class Pages:
    """The templates, and a cache of rendered pages. `explorers`: the block explorers' URLs by network."""

    def __init__(
        self, assets: Assets, origin: str, wallets: Mapping[str, Any], explorers: Mapping[str, str | None]
    ) -> None:
        self._explorers = explorers
        self._pages: VersionedCache[Hashable, Rendered] = VersionedCache(CACHED_BYTES, lambda page: page.size)
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            # Templates that are not pages are plain text.
            autoescape=select_autoescape(enabled_extensions=("html",), disabled_extensions=("txt",), default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {
            "asset": assets.url,
            "origin": origin,
            "navigation": NAVIGATION,
            "wallets": dict(wallets),
        }
        self._environment.filters |= {
            "money": figures.money,
            "plain": figures.plain,
            "dollars": figures.dollars,
            "price": figures.price,
            "clock": figures.clock,
            "short_clock": figures.short_clock,
            "iso_clock": figures.iso_clock,
            "span": figures.span,
            "short": figures.shortened,
            "bps": figures.bps,
            "ordinal": figures.ordinal,
            "unix": figures.unix,
            "tx": self._tx,
            "address": self._address,
        }
        self._environment.globals |= {"until": figures.until, "percent": figures.percent}

    def render(self, template: str, **values: Any) -> bytes:
        made = self._environment.get_template(template).render(**values)
        return (label_cells(made) if template.endswith(".html") else made).encode()

    async def last_rendering(
        self,
        page: Hashable,
        stamp: Hashable,
        render: Callable[[], Awaitable[bytes]],
        cache: str = REVALIDATE,
        content_type: str = HTML,
    ) -> Rendered:
        """Return the cached page. If its stamp has changed, first render the page again, once for all concurrent
        requests."""

        async def make() -> Rendered:
            return await Rendered.make(await render(), cache, content_type=content_type)

        return await self._pages.get(page, lambda: stamp, make)

    async def answer(
        self,
        request: web.Request,
        page: Hashable,
        stamp: Hashable,
        render: Callable[[], Awaitable[bytes]],
        cache: str = REVALIDATE,
        status: int = 200,
    ) -> web.Response:
        response = (await self.last_rendering(page, stamp, render, cache)).response(request, status)
        response.headers.update(SECURITY)
        return response

    def static_page(self, page: str, render: Callable[[], bytes]) -> Handler:
        """Make a handler for a page that never changes."""

        async def once() -> bytes:
            return render()

        async def serve(request: web.Request) -> web.StreamResponse:
            return await self.answer(request, page, None, once)

        return serve

    def _tx(self, tx: str | None, network: str = "stock", label: str | None = None) -> Markup:
        if not tx:
            return figures.NONE
        return self._named(network, "tx", tx, label)

    def _address(self, address: str, network: str = "stock") -> Markup:
        return self._named(network, "address", address, None)

    def _named(self, network: str, kind: str, value: str, label: str | None) -> Markup:
        shown = label or figures.shortened(value)
        explorer = self._explorers.get(network)
        if explorer is None:
            return Markup('<code class="hash" title="{}">{}</code>').format(value, shown)
        return Markup('<a class="hash" href="{}/{}/{}" title="{}" rel="noopener">{}</a>').format(
            explorer, kind, value, value, shown
        )


_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_HEAD = re.compile(r"<thead>(.*?)</thead>", re.DOTALL)
_HEADER = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_BODY = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(td|th)\b")
_TAG = re.compile(r"<[^>]*>")


def label_cells(page: str) -> str:
    """Add the column's name as `data-label` to each cell of a table with a head: on a phone, rows become cards with
    these labels. This works only on templates' markup, in which values are escaped."""
    return _TABLE.sub(lambda table: _label_table(table[0]), page)


def _label_table(table: str) -> str:
    head = _HEAD.search(table)
    if head is None:
        return table
    names = [_TAG.sub("", each).strip().replace('"', "&quot;") for each in _HEADER.findall(head[1])]
    return _BODY.sub(lambda body: _ROW.sub(lambda row: _row(row[0], names), body[0]), table)


def _row(row: str, names: list[str]) -> str:
    columns = iter(names)

    def cell(tag: re.Match[str]) -> str:
        name = next(columns, "")
        return f'<{tag[1]} data-label="{name}"' if name else tag[0]

    return _CELL.sub(cell, row)

"""What programs ask of any site: /robots.txt, /sitemap.xml and the manifest of the site as an app."""

from __future__ import annotations

from functools import partial
from typing import Any
from xml.sax.saxutils import escape

import orjson
from aiohttp import web

from api.agent.reads import Reads
from api.http.rendered import Rendered
from api.stock.reads import StockReads
from api.web.answers import TEXT, HeldPages, or_none

CACHE = "public, max-age=300"
XML = "application/xml; charset=utf-8"
MANIFEST = "application/manifest+json; charset=utf-8"
MAX_SETTLED = 500
ICON_SIZES = (180, 192, 512)

# An address's positions are nobody's to list, and the API has its own documents.
ROBOTS = """User-agent: *
Disallow: /api/
Disallow: /live
Disallow: /positions

Sitemap: {origin}/sitemap.xml
"""


class Crawlers:
    """The documents for search engines and for phones. `pages`: the addresses that are always there."""

    def __init__(
        self,
        origin: str,
        pages: tuple[str, ...],
        rendered: HeldPages,
        stock: StockReads | None,
        agent: Reads | None,
    ) -> None:
        self._origin = origin
        self._held = rendered
        self._pages = pages
        self._stock = stock
        self._agent = agent

    async def robots(self, request: web.Request) -> web.StreamResponse:
        body = ROBOTS.format(origin=self._origin).encode()
        return (await Rendered.make(body, CACHE, content_type=TEXT)).response(request)

    async def sitemap(self, request: web.Request) -> web.StreamResponse:
        stamp = tuple(None if each is None else each.stamp for each in (self._stock, self._agent))
        return (await self._held.get("sitemap", stamp, self._sitemap, CACHE, XML)).response(request)

    async def _sitemap(self) -> bytes:
        entries = "".join(f"<url><loc>{escape(self._origin + each)}</loc></url>" for each in self._addresses())
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        ).encode()

    async def manifest(self, request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = {
            "name": "VPM: prediction markets",
            "short_name": "VPM",
            "description": "Prediction markets whose record is the chain.",
            "start_url": "/",
            "scope": "/",
            "display": "minimal-ui",
            "background_color": "#faf9f6",
            "theme_color": "#1d2b64",
            "icons": [
                {"src": f"/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png", "purpose": "any maskable"}
                for size in ICON_SIZES[1:]
            ],
        }
        return (await Rendered.make(orjson.dumps(body), CACHE, content_type=MANIFEST)).response(request)

    def _addresses(self) -> list[str]:
        """Every page worth finding: those of markets as long as they can be read."""
        addresses = list(self._pages)
        if self._stock is not None and (stock := or_none(partial(self._stock.overview, MAX_SETTLED))):
            addresses += [each.href for each in stock[0].markets]
        if self._agent is not None and (agent := or_none(partial(self._agent.overview, MAX_SETTLED))):
            addresses += [f"/markets/{each['slug']}" for each in (*agent["open"], *agent["closed"])]
        return addresses

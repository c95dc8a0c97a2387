"""The standard files for crawlers and phones: /robots.txt, /sitemap.xml and the web app manifest."""

from __future__ import annotations

from functools import partial
from xml.sax.saxutils import escape

from aiohttp import web

from api.agent.reads import AgentReads
from api.stock.reads import StockReads
from api.web.answers import FIXED, or_none
from api.web.templating import Pages

XML = "application/xml; charset=utf-8"
MANIFEST = "application/manifest+json; charset=utf-8"
MAX_SETTLED = 500

# Positions of an address should not be indexed; the API has its own documents.
ROBOTS = """User-agent: *
Disallow: /api/
Disallow: /positions

Sitemap: {origin}/sitemap.xml
"""

APP = {
    "name": "VPM: prediction markets",
    "short_name": "VPM",
    "description": "Prediction markets you can verify on chain.",
    "start_url": "/",
    "scope": "/",
    "display": "minimal-ui",
    "background_color": "#faf9f6",
    "theme_color": "#1d2b64",
    "icons": [
        {"src": f"/icon-{size}.png", "sizes": f"{size}x{size}", "type": "image/png", "purpose": "any maskable"}
        for size in (192, 512)
    ],
}


class Sitemap:
    """The sitemap for search engines. `always`: the paths of pages that always exist."""

    def __init__(
        self, pages: Pages, origin: str, always: tuple[str, ...], stock: StockReads, agent: AgentReads | None
    ) -> None:
        self._pages = pages
        self._origin = origin
        self._always = always
        self._stock = stock
        self._agent = agent

    async def get(self, request: web.Request) -> web.StreamResponse:
        stamp = (self._stock.stamp, None if self._agent is None else self._agent.stamp)
        return (await self._pages.last_rendering("sitemap", stamp, self._render, FIXED, XML)).response(request)

    async def _render(self) -> bytes:
        entries = "".join(f"<url><loc>{escape(self._origin + each)}</loc></url>" for each in self._addresses())
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        ).encode()

    def _addresses(self) -> list[str]:
        """Return the paths of all pages; markets are left out while they cannot be read."""
        addresses = list(self._always)
        if stock := or_none(partial(self._stock.overview, MAX_SETTLED)):
            addresses += [each.href for each in stock[0].markets]
        if self._agent is not None and (agent := or_none(partial(self._agent.overview, MAX_SETTLED))):
            markets = [*(each.market for each in agent.open), *agent.later, *(each.market for each in agent.closed)]
            addresses += [f"/markets/{each.slug}" for each in markets]
        return addresses

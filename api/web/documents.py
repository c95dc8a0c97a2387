"""Plain documents: the guide for agents (/agents.txt), the paid resources for older x402 directories, and the identity
document with the signing key (`did:web`). For crawlers and phones there are robots.txt, the sitemap and the
manifest."""

from __future__ import annotations

import textwrap
from functools import partial
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

import orjson
from aiohttp import web

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.platform import custody
from api.agent.reads import AgentReads
from api.stock.bets import NONCE_FORMULA
from api.stock.reads import StockReads
from api.web.templating import FIXED, Pages, or_none
from core.contracts.deployments import Deployment

LINE = 120
DID_CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1recovery-2020/v2")
DID_KEY = "attestation"


def guide_text(pages: Pages, base: Deployment, stock: Deployment) -> bytes:
    return pages.render(
        "agents.txt",
        base=base,
        stock=stock,
        custody=_wrapped(custody(base.contracts["SettlementWallet"].address))
        if "SettlementWallet" in base.contracts
        else "",
        catalogue=CATALOGUE,
        retriable=RETRIABLE,
        nonce_formula=NONCE_FORMULA,
    )


def paid_resources(origin: str) -> bytes:
    return orjson.dumps(
        {
            "version": 1,
            "resources": [f"{origin}/api/agent/v1/trade"],
            "instructions": f"Bets on prediction markets in USDC on Base. POST a bet to get its price. "
            f"See {origin}/agents.txt for the guide and {origin}/openapi.json for a working example of a bet.",
        }
    )


def identity_document(origin: str, attester: str, chain_id: int) -> bytes:
    """Build the document that names the attestation key, which signs offers and receipts. If the origin has a port, the
    document's name includes the port, with an escaped colon."""
    name = f"did:web:{quote(urlsplit(origin).netloc, safe='.-')}"
    key = f"{name}#{DID_KEY}"
    method = {
        "id": key,
        "type": "EcdsaSecp256k1RecoveryMethod2020",
        "controller": name,
        "blockchainAccountId": f"eip155:{chain_id}:{attester}",
    }
    return orjson.dumps({"@context": DID_CONTEXT, "id": name, "verificationMethod": [method], "assertionMethod": [key]})


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)


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
        """Return the paths of all pages. Pages of markets are left out while the markets cannot be read."""
        addresses = list(self._always)
        if stock := or_none(partial(self._stock.overview, MAX_SETTLED)):
            addresses += [each.href for each in stock[0].markets]
        if self._agent is not None and (agent := or_none(partial(self._agent.overview, MAX_SETTLED))):
            markets = [*(each.market for each in agent.open), *agent.later, *(each.market for each in agent.closed)]
            addresses += [f"/markets/{each.slug}" for each in markets]
        return addresses

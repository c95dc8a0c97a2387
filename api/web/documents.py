"""Plain documents for agents, crawlers and phones: the guide, every error, robots.txt, the sitemap, the manifest, the
paid resources for older x402 directories, and the identity document with the signing key (`did:web`)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote, urlsplit
from xml.sax.saxutils import escape

import orjson
from aiohttp import web

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.platform import custody
from api.agent.reads import AgentReads
from api.caching import JSON
from api.operations import Handler
from api.stock.bets import NONCE_FORMULA
from api.stock.reads import StockReads
from api.web.templating import FIXED, TEXT, Pages, or_none
from core.contracts.deployments import Deployment

LINE = 120
DID_CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1recovery-2020/v2")
DID_KEY = "attestation"
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


def documents(
    pages: Pages, origin: str, base: Deployment, stock: Deployment, agent: AgentReads | None, attester: str | None
) -> Iterator[tuple[str, bytes, str, str]]:
    """Yield the path, bytes, summary and content type of each document that never changes while the process runs."""
    wallet = base.contracts.get("SettlementWallet")
    terms = "" if wallet is None else textwrap.fill(custody(wallet.address), LINE, break_on_hyphens=False)
    errors = {"catalogue": CATALOGUE, "retriable": RETRIABLE}
    guide = pages.render("agents.txt", base=base, stock=stock, custody=terms, nonce_formula=NONCE_FORMULA, **errors)
    every_error = pages.render("errors.txt", catalogue=CATALOGUE)
    yield "/robots.txt", ROBOTS.format(origin=origin).encode(), "What crawlers may read", TEXT
    yield "/manifest.webmanifest", orjson.dumps(APP), "The site as an app", MANIFEST
    yield "/agents.txt", guide, "The guide for agents", TEXT
    yield "/errors.txt", every_error, "Every error code with its cause and the next step", TEXT
    yield "/llms.txt", pages.render("llms.txt"), "An index for models", TEXT
    yield "/llms-full.txt", b"\n\n".join((guide, every_error)), "The guide and the errors in one file", TEXT
    if agent is not None:
        yield "/.well-known/x402", paid_resources(origin), "The resources that are paid through x402", JSON
        if attester is not None:
            identity = identity_document(origin, attester, base.chain_id)
            yield "/.well-known/did.json", identity, "The key that signs for this origin", JSON


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
    """Build the document that names the attestation key, which signs offers and receipts. In the document's id, the
    colon before a port is escaped."""
    name = f"did:web:{quote(urlsplit(origin).netloc, safe='.-')}"
    key = f"{name}#{DID_KEY}"
    method = {
        "id": key,
        "type": "EcdsaSecp256k1RecoveryMethod2020",
        "controller": name,
        "blockchainAccountId": f"eip155:{chain_id}:{attester}",
    }
    return orjson.dumps({"@context": DID_CONTEXT, "id": name, "verificationMethod": [method], "assertionMethod": [key]})


def sitemap(pages: Pages, origin: str, always: tuple[str, ...], stock: StockReads, agent: AgentReads | None) -> Handler:
    """Make a handler for the sitemap. `always`: the paths of the pages that always exist."""

    async def render() -> bytes:
        paths = [*always, *_market_paths(stock, agent)]
        entries = "".join(f"<url><loc>{escape(origin + each)}</loc></url>" for each in paths)
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        ).encode()

    async def get(request: web.Request) -> web.StreamResponse:
        stamp = (stock.stamp, None if agent is None else agent.stamp)
        return (await pages.last_rendering("sitemap", stamp, render, FIXED, XML)).response(request)

    return get


def _market_paths(stock: StockReads, agent: AgentReads | None) -> Iterator[str]:
    """Yield the paths of markets' pages. Markets that cannot be read now are left out."""
    if listed := or_none(partial(stock.overview, MAX_SETTLED)):
        yield from (each.href for each in listed[0].markets)
    if agent is not None and (overview := or_none(partial(agent.overview, MAX_SETTLED))):
        shown = [*(each.market for each in overview.open), *overview.later, *(each.market for each in overview.closed)]
        yield from (f"/markets/{each.slug}" for each in shown)

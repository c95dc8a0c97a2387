"""/agents.txt: the integration guide in plain text, for agents and for the people who build them."""

from __future__ import annotations

import textwrap

import orjson
from aiohttp import web

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.platform import custody
from api.http.rendered import Rendered
from api.stock.authorization import NONCE_FORMULA
from api.web.answers import TEXT
from api.web.error_codes import tables
from api.web.templating import Pages
from core.config import Settings
from core.contracts.deployments import Deployment

CACHE = "public, max-age=300"
LINE = 120


class Guide:
    """The guide for agents, in plain text."""

    def __init__(self, pages: Pages, settings: Settings, base: Deployment, stock: Deployment) -> None:
        self._body = pages.render(
            "agents.txt",
            origin=settings.public_url.rstrip("/"),
            base=base,
            stock=stock,
            custody=_filled(custody(base.contracts["SettlementWallet"].address))
            if "SettlementWallet" in base.contracts
            else "",
            catalogue=CATALOGUE,
            retriable=RETRIABLE,
            nonce_formula=NONCE_FORMULA,
        )

        origin = settings.public_url.rstrip("/")
        self._errors = pages.render("errors.txt", origin=origin, tables=tables())
        self._short = pages.render("llms.txt", origin=origin)
        self._paid = orjson.dumps(
            {
                "version": 1,
                "resources": [f"{origin}/api/agent/v1/trade"],
                "instructions": f"Bets on prediction markets in USDC on Base. POST a bet to learn what it costs. "
                f"{origin}/agents.txt is the guide, {origin}/openapi.json has a bet that works now as example.",
            }
        )

    async def errors(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._errors, CACHE, content_type=TEXT)).response(request)

    async def llms(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._short, CACHE, content_type=TEXT)).response(request)

    async def llms_full(self, request: web.Request) -> web.StreamResponse:
        whole = b"\n\n".join((self._body, self._errors))
        return (await Rendered.make(whole, CACHE, content_type=TEXT)).response(request)

    async def paid(self, request: web.Request) -> web.StreamResponse:
        """What older directories of x402 read."""
        return (await Rendered.make(self._paid, CACHE)).response(request)

    async def get(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._body, CACHE, content_type=TEXT)).response(request)


def _filled(text: str) -> str:
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)

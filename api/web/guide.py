"""/agents.txt: the integration guide in plain text, for agents and for the people who build them."""

from __future__ import annotations

import textwrap

from aiohttp import web

from api.agent.platform import custody
from api.agent.problems import CATALOGUE, RETRIABLE
from api.http.rendered import Rendered
from api.vpm.authorization import NONCE_FORMULA
from api.web.answers import TEXT
from api.web.templating import Pages
from core.config import Settings
from core.deployments import Deployment

CACHE = "public, max-age=300"
LINE = 120


class Guide:
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

    async def get(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._body, CACHE, content_type=TEXT)).response(request)


def _filled(text: str) -> str:
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)

"""/agents.txt: the integration guide in plain text, for agents and for the people who build them."""

from __future__ import annotations

from aiohttp import web

from api.agent.problems import CATALOGUE, RETRIABLE
from api.http.rendered import Rendered
from api.vpm.authorization import NONCE_FORMULA
from api.web.answers import TEXT
from api.web.templating import Pages
from core.config import Settings
from core.deployments import Deployment

CACHE = "public, max-age=300"


class Guide:
    def __init__(self, pages: Pages, settings: Settings, base: Deployment, stock: Deployment) -> None:
        self._body = pages.render(
            "agents.txt",
            origin=settings.public_url.rstrip("/"),
            base=base,
            stock=stock,
            catalogue=CATALOGUE,
            retriable=RETRIABLE,
            nonce_formula=NONCE_FORMULA,
        )

    async def get(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._body, CACHE, content_type=TEXT)).response(request)

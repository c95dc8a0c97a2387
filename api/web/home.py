"""The home page: live markets of both kinds, and whether the contracts hold what they owe."""

from __future__ import annotations

from functools import partial

import orjson
from aiohttp import web

from api.agent.reads import Reads
from api.http.problem import Problem
from api.http.rendered import Rendered
from api.stock.proof import Proof
from api.stock.reads import StockReads
from api.web.answers import HeldPages, html, or_none
from api.web.stock_view import readable
from api.web.templating import Pages
from core.money import loads

SETTLED_SHOWN = 8
CLOSED_SHOWN = 6


class HomePage:
    """The first page. `stock`, with its `proof`, and `agent` are None where that surface is not served."""

    def __init__(
        self, pages: Pages, rendered: HeldPages, stock: StockReads | None, proof: Proof | None, agent: Reads | None
    ) -> None:
        self._pages = pages
        self._held = rendered
        self._stock = stock
        self._proof = proof
        self._agent = agent

    async def get(self, request: web.Request) -> web.StreamResponse:
        proof = await self._proven()
        stamp = (
            None if self._stock is None else self._stock.stamp,
            None if proof is None else proof.tag,
            None if self._agent is None else self._agent.stamp,
        )

        async def render() -> bytes:
            return self._render(proof)

        return html(request, await self._held.get("home", stamp, render))

    async def _proven(self) -> Rendered | None:
        try:
            return await self._proof.rendered() if self._proof is not None else None
        except Problem:
            return None

    def _render(self, proof: Rendered | None) -> bytes:
        stock = None if self._stock is None else or_none(partial(self._stock.overview, SETTLED_SHOWN))
        agent = None if self._agent is None else or_none(partial(self._agent.overview, CLOSED_SHOWN))
        if stock is not None:
            stock = {**stock, "markets": [readable(each) for each in stock["markets"]]}
        agent_exact = None if agent is None else loads(orjson.dumps(agent))
        proven = None if proof is None else orjson.loads(proof.body)
        return self._pages.render("home.html", path="/", stock=stock, proof=proven, agent=agent_exact)

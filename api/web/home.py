"""The home page: open markets of both kinds, the latest bets, and the contracts' solvency."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from aiohttp import web
from msgspec import structs

from api.agent.reads import AgentReads
from api.stock.bodies.proof import ProofBody
from api.stock.proof import Proof
from api.stock.reads import StockReads
from api.web import figures
from api.web.answers import await_or_none, exact, or_none
from api.web.recent_activity import MarketActivity
from api.web.stock_view import without_empty_readings
from api.web.templating import Pages

SETTLED_SHOWN = 8
CLOSED_SHOWN = 6


class HomePage:
    """The home page. `agent` is None while the agent API is switched off."""

    def __init__(
        self, pages: Pages, stock: StockReads, proof: Proof, agent: AgentReads | None, activity: MarketActivity
    ) -> None:
        self._pages = pages
        self._stock = stock
        self._proof = proof
        self._agent = agent
        self._activity = activity

    async def get(self, request: web.Request) -> web.StreamResponse:
        proof = await await_or_none(self._proof.shown())
        read = (self._stock.stamp, None if self._agent is None else self._agent.stamp)

        async def render() -> bytes:
            return await self._render(proof, read)

        return await self._pages.answer(request, "home", (read, None if proof is None else proof[1]), render)

    async def _render(self, proof: tuple[ProofBody, str] | None, stamp: Hashable) -> bytes:
        stock = or_none(partial(self._stock.overview, SETTLED_SHOWN))
        agent = None if self._agent is None else or_none(partial(self._agent.overview, CLOSED_SHOWN))
        listed, stock_now = (None, None) if stock is None else stock
        markets = [] if listed is None else [without_empty_readings(each) for each in listed.markets]
        agent_exact = None if agent is None else exact(agent)
        # Countdowns follow the stock chain's clock if it is known.
        agent_now = None if agent_exact is None else figures.unix(agent_exact["freshness"]["blockAt"])
        now = agent_now if stock_now is None else stock_now
        return self._pages.render(
            "home.html",
            path="/",
            stock=None if listed is None else structs.replace(listed, markets=markets),
            proof=None if proof is None else proof[0],
            agent=agent_exact,
            agent_now=agent_now,
            bets=await self._activity.bets(stamp),
            **({} if now is None else {"now": now}),
        )

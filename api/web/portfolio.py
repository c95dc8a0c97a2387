"""The portfolio page: an address's bets on all three surfaces, their payouts if right, and its wins and losses."""

from __future__ import annotations

import asyncio
import re

from aiohttp import web
from limits import parse

from api.agent.reads import AgentReads
from api.cup import requests
from api.cup.service import CupService
from api.limits import RateLimits, caller_ip
from api.operations import Json
from api.stock.reads import StockReads
from api.web import cup
from api.web.answers import PRIVATE, await_or_none, owner_of
from api.web.results import collect_results, results_chart
from api.web.templating import Pages
from core.config import Settings
from core.money import loads, to_json

# An open page refreshes 24 times a minute.
OWNER_RATE = parse("60/minute")
ID = re.compile(r"[1-9][0-9]{0,17}")
STOCK_POSITIONS_SHOWN, AGENT_BETS_SHOWN = 200, 50


class PortfolioPage:
    """The portfolio page. If one surface cannot be read, the page says so and shows the others."""

    def __init__(
        self,
        pages: Pages,
        surfaces: tuple[StockReads, AgentReads | None, CupService],
        limits: RateLimits,
        settings: Settings,
    ) -> None:
        self._pages = pages
        self._stock, self._agent, self._cup = surfaces
        self._limits = limits
        self._settings = settings

    async def get(self, request: web.Request) -> web.StreamResponse:
        owner = owner_of(request)
        if owner is None:
            return await self._asking(request, request.query.get("owner", ""))
        who = caller_ip(request, self._settings)
        await self._limits.take(OWNER_RATE, "positions-page", who, "This page can be loaded at most 60 times a minute.")
        before = request.query.get("before", "")
        older = int(before) if ID.fullmatch(before) else None
        asked = requests.WalletRequest(walletAddress=owner)
        stock, agent, paper = await asyncio.gather(
            self._stock.owner_body(owner, STOCK_POSITIONS_SHOWN, older),
            self._agent_bets(owner),
            await_or_none(cup.read(self._cup, self._cup.wallet, asked)),
        )
        sections = {"stock": stock, "agent": agent, "paper": paper}

        async def render() -> bytes:
            results = collect_results(stock, agent)
            chart = results_chart(results, stock.read_at)
            return self._pages.render(
                "positions.html",
                path="/positions",
                owner=owner,
                wrong=None,
                results=results,
                chart=None if chart is None else chart.draw("results"),
                older=older,
                **sections,
            )

        stamp = to_json(sections)
        return await self._pages.answer(request, ("positions", owner, older), stamp, render, PRIVATE)

    async def _asking(self, request: web.Request, wrong: str) -> web.StreamResponse:
        async def render() -> bytes:
            return self._pages.render("positions.html", path="/positions", owner=None, wrong=wrong or None)

        page, status = ("positions", wrong), 400 if wrong else 200
        return await self._pages.answer(request, page, None, render, PRIVATE, status)

    async def _agent_bets(self, owner: str) -> Json | None:
        book = (
            None
            if self._agent is None
            else await await_or_none(self._agent.positions_page(owner, AGENT_BETS_SHOWN, None))
        )
        return None if book is None else loads(book)

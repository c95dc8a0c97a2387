"""The portfolio page: an address's bets on all three surfaces, their payouts if they win, and the profit and loss.

The chart covers only the positions on the page, so a long history costs no more than a short one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

from aiohttp import web
from limits import parse

from api.agent.reads import AgentReads
from api.cup import requests
from api.cup.service import CupService
from api.limits import RateLimits, caller_ip
from api.operations import Json
from api.stock.bodies import OwnerBody
from api.stock.reads import StockReads
from api.web import cup, figures
from api.web.charts import Chart, ChartLine, Level, Tone, Unit
from api.web.templating import PRIVATE, Pages, await_or_none, owner_of
from core.config import Settings
from core.money import USD, loads, to_json


@dataclass(frozen=True, slots=True)
class SettledBet:
    """A bet on a market that ended at `at`. `won` is negative for a loss."""

    entered_at: int
    at: int
    won: int


@dataclass(frozen=True, slots=True)
class Results:
    """The settled bets in each token, in the order in which their markets ended."""

    stock: Sequence[SettledBet] = ()
    agent: Sequence[SettledBet] = ()


def collect_results(stock: OwnerBody, agent: Json | None) -> Results:
    """Collect results from an address's positions. A stake that was never accepted is neither profit nor loss."""
    bets = [] if agent is None else agent["positions"]
    return Results(
        _in_order(
            SettledBet(each.entered_at or 0, each.final_time, int(each.settlement.net) - int(each.accepted))
            for each in stock.positions
            if not each.open and each.accepted is not None
        ),
        _in_order(
            SettledBet(figures.unix(each["filledAt"]), figures.unix(each["endsAt"]), int(Decimal(each["pnlUsd"]) * USD))
            for each in bets
            if each["status"] != "open"
        ),
    )


def results_chart(results: Results, now: int) -> Chart | None:
    """Chart the running total of each token's results, or return None if no bet is settled."""
    both = [*results.stock, *results.agent]
    if not both:
        return None
    start = min(each.entered_at for each in both)
    end = max(now, *(each.at for each in both))
    tokens: tuple[tuple[str, Tone, Sequence[SettledBet]], ...]
    tokens = (("USDG", "main", results.stock), ("USDC", "quiet", results.agent))
    lines, levels, sentences = [], [Level(0, "")], []
    for token, tone, some in tokens:
        if some:
            sums = list(accumulate(each.won for each in some))
            points = [(start, 0), *zip((each.at for each in some), sums, strict=True), (end, sums[-1])]
            lines.append(ChartLine(points, tone, label=token))
            levels.append(Level(sums[-1], f"{token} {figures.signed(sums[-1])}", tone))
            sentences.append(f"{figures.signed(sums[-1])} {token} over {len(some)} bet{'' if len(some) == 1 else 's'}")
    return Chart(
        title="Profit and loss, running total",
        summary=f"{' and '.join(sentences)}.",
        lines=lines,
        start=start,
        end=end,
        levels=levels,
        unit=Unit(USD, 2),
    )


def _in_order(results: Iterable[SettledBet]) -> tuple[SettledBet, ...]:
    return tuple(sorted(results, key=lambda each: each.at))


# An open page refreshes 24 times a minute.
OWNER_RATE = parse("60/minute")
ID = re.compile(r"[1-9][0-9]{0,17}")
STOCK_POSITIONS_SHOWN, AGENT_BETS_SHOWN = 200, 50


class PortfolioPage:
    """The portfolio page. If one surface cannot be read, the page says so and shows the bets on the others."""

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
        asked = requests.WalletPath(address=owner)
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
        if self._agent is None:
            return None
        book = await await_or_none(self._agent.positions_page(owner, AGENT_BETS_SHOWN, None))
        return None if book is None else loads(book)

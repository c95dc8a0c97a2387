"""Serves the pictures shown where a market's page is shared.

Each picture is drawn at most once per `FRESH_SECONDS`, one at a time in a thread, and cached, so that drawing never
takes more than part of one core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from api.agent.reads import AgentReads
from api.caching import Rendered, VersionedCache
from api.limits import ConcurrencyLimiter, LimiterFull
from api.operations import Json
from api.stock.bodies.markets import MarketDetailBody
from api.stock.reads import StockReads
from api.web import figures
from api.web.answers import exact
from api.web.pictures import ShareCard, draw_card, draw_icon

PNG = "image/png"
CACHE = "public, max-age=300"
ICON_CACHE = "public, max-age=86400"
FRESH_SECONDS = 60.0
CACHED_BYTES = 16_000_000
# Beyond this many waiting requests, in total or from one address, a request gets a Retry-After: crawlers come back.
MAX_WAITING, MAX_WAITING_EACH = 16, 4
SITE = ShareCard("Prediction markets you can verify on chain", foot="Your promised payout only rises")
STATES = {"closed": "Closed, being settled", "resolved": "Resolved", "void": "Void: every stake is returned"}


class SharePictures:
    """The share cards of markets and of the site, and its icons. `caller` returns a request's address, so that no
    address can fill the queue."""

    def __init__(self, stock: StockReads, agent: AgentReads | None, caller: Callable[[web.Request], str]) -> None:
        self._stock = stock
        self._agent = agent
        self._caller = caller
        self._pictures: VersionedCache[str, Rendered] = VersionedCache(CACHED_BYTES, lambda picture: picture.size)
        self._drawing = asyncio.Lock()
        self._places = ConcurrencyLimiter(MAX_WAITING, MAX_WAITING_EACH)

    async def site(self, request: web.Request) -> web.StreamResponse:
        async def card() -> ShareCard:
            return SITE

        return (await self._picture(request, "", card)).response(request)

    async def stock_market(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        detail, _ = await self._stock.shown(name)  # a 404 before anything is cached under this name

        async def card() -> ShareCard:
            return stock_card(detail)

        return (await self._picture(request, f"/m/{name}", card)).response(request)

    async def agent_market(self, request: web.Request) -> web.StreamResponse:
        reads, name = self._agent, request.match_info["id"]
        assert reads is not None, "routed only where agent markets are served"
        await reads.result_of(name)

        async def card() -> ShareCard:
            bundle = exact(await reads.research_bundle(name))
            return agent_card(bundle["market"], exact(await reads.result_of(name)))

        return (await self._picture(request, f"/markets/{name}", card)).response(request)

    @staticmethod
    async def icon(request: web.Request) -> web.StreamResponse:
        return Rendered(draw_icon(int(request.match_info["size"])), ICON_CACHE, content_type=PNG).response(request)

    async def _picture(self, request: web.Request, name: str, card: Callable[[], Awaitable[ShareCard]]) -> Rendered:
        """Return this minute's picture. Concurrent requests share one drawing, which counts against the first caller
        until it is done, even if every client has disconnected."""
        caller = self._caller(request)

        async def draw() -> Rendered:
            with self._places.place(caller):
                async with self._drawing:
                    return Rendered(await asyncio.to_thread(draw_card, await card()), CACHE, content_type=PNG)

        try:
            return await self._pictures.get(name, _minute, draw)
        except LimiterFull as none:
            raise none.refusal(
                f"At most {MAX_WAITING_EACH} pictures can be requested at once from an address, and a third of all "
                "from a network; try again in a few seconds.",
                "Too many pictures are being drawn; try again in a few seconds.",
                seconds=5,
            ) from None


def _minute() -> int:
    return int(time.monotonic() // FRESH_SECONDS)


def stock_card(detail: MarketDetailBody) -> ShareCard:
    """Make a stock market's card from the body of `GET /api/markets/{id}`."""
    market = detail.market
    pools = [int(book.principal) for book in detail.books]
    up = pools[0] * 1000 // sum(pools) if any(pools) else 500
    if market.winner:
        foot = f"Settled: {market.winner}"
    elif market.phase == "void":
        foot = STATES["void"]
    else:
        foot = f"Betting ends {figures.moment(market.final_time)}"
    return ShareCard(market.question, (("UP", up), ("DOWN", 1000 - up)), foot)


def agent_card(market: Json, result: Json) -> ShareCard:
    """Make an agent market's card; with more than two outcomes it shows no odds."""
    odds: tuple[tuple[str, int], ...] = ()
    if market["odds"] is not None and market["odds"]["yesPriceCents"] is not None:
        first = int(market["odds"]["yesPriceCents"] * 10)
        odds = ((market["outcomes"][0]["label"], first), (market["outcomes"][1]["label"], 1000 - first))
    foot = f"Betting ends {figures.moment(figures.unix(market['deadlineAt']))}"
    if market["opensAt"] is not None:
        foot = f"Betting opens {figures.moment(figures.unix(market['opensAt']))}"
    elif market["status"] != "open":
        label = result.get("resolvedOutcomeLabel")
        foot = STATES[market["status"]] + (f": {label}" if market["status"] == "resolved" and label else "")
    return ShareCard(market["question"], odds, foot)

"""A stock market's page: its price, its books, the bet and who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web
from msgspec import structs

from api.stock.bodies.markets import MarketDetailBody
from api.stock.chain import StockContracts
from api.stock.reads import StockReads
from api.web import stock_view
from api.web.answers import PRIVATE, REVALIDATE, owner_of
from api.web.history import FeedHistory, Reading
from api.web.templating import Pages
from core.contracts.deployments import Deployment
from core.money import to_json


class StockPages:
    """The pages of the stock markets."""

    def __init__(self, pages: Pages, reads: StockReads, history: FeedHistory, deployment: Deployment) -> None:
        self._pages = pages
        self._reads = reads
        self._history = history
        self._contracts = StockContracts.of(deployment)

    async def market(self, request: web.Request) -> web.StreamResponse:
        body, tag = await self._reads.shown(request.match_info["id"])
        owner = owner_of(request)
        whole = request.query.get("positions") == "all"

        async def render() -> bytes:
            market = stock_view.readable(body.market)
            detail = structs.replace(body, market=market)
            start, _ = stock_view.window(market, detail.head.timestamp)
            stamp = to_json([market.live, len(detail.positions), detail.resolution is not None, start])
            readings = await self._history.get(market.id, market.feed, start, market.final_time, stamp)
            return self._pages.render("stock.html", path="/", **self._facts(detail, readings, owner, whole))

        page = ("market", request.match_info["id"], owner, whole)
        return await self._pages.answer(request, page, tag, render, REVALIDATE if owner is None else PRIVATE)

    def _facts(
        self, detail: MarketDetailBody, readings: Sequence[Reading], owner: str | None, whole: bool
    ) -> dict[str, Any]:
        market = detail.market
        both = stock_view.sides(detail)
        positions = detail.positions
        mine = [each for each in positions if owner is not None and each.owner.lower() == owner]
        shown = positions if whole else positions[:2] + positions[2:][-stock_view.POSITIONS_SHOWN :]
        return {
            "detail": detail,
            "market": market,
            "now": detail.head.timestamp,
            "sides": both,
            "examples": stock_view.examples(market),
            "price_chart": stock_view.price_chart(detail, readings).draw("price"),
            "owner": owner,
            "mine": mine,
            "positions": shown,
            "left_out": len(positions) - len(shown),
            "settling": None if self._contracts is None else stock_view.settling(detail, self._contracts),
            "settler": "" if self._contracts is None else self._contracts.settler.address,
        }

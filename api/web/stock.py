"""A stock market's page: its price, books, bet panel and positions."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from msgspec import structs

from api.stock.bodies.markets import MarketDetailBody
from api.stock.chain import StockContracts
from api.stock.reads import StockReads
from api.web import stock_view
from api.web.answers import PRIVATE, REVALIDATE, owner_of
from api.web.history import ChartHistory, MarketPast
from api.web.templating import Pages
from core.contracts.deployments import Deployment
from core.money import to_json


class StockPages:
    """The pages of the stock markets."""

    def __init__(self, pages: Pages, reads: StockReads, history: ChartHistory, deployment: Deployment) -> None:
        self._pages = pages
        self._reads = reads
        self._history = history
        self._contracts = StockContracts.of(deployment)

    async def market(self, request: web.Request) -> web.StreamResponse:
        body, tag = await self._reads.shown(request.match_info["id"])
        owner = owner_of(request)
        whole = request.query.get("positions") == "all"

        async def render() -> bytes:
            market = stock_view.without_empty_readings(body.market)
            detail = structs.replace(body, market=market)
            start, _ = stock_view.chart_range(market, detail.head.timestamp)
            stamp = (market.live, market.totals, len(detail.positions), detail.resolution is not None)
            past = await self._history.get(market.id, market.feed, start, market.final_time, to_json([*stamp, start]))
            return self._pages.render("stock.html", path="/", **self._facts(detail, past, owner, whole))

        page = ("market", request.match_info["id"], owner, whole)
        return await self._pages.answer(request, page, tag, render, REVALIDATE if owner is None else PRIVATE)

    def _facts(self, detail: MarketDetailBody, past: MarketPast, owner: str | None, whole: bool) -> dict[str, Any]:
        market = detail.market
        positions = detail.positions
        mine = [each for each in positions if owner is not None and each.owner.lower() == owner]
        shown = positions if whole else positions[:2] + positions[2:][-stock_view.POSITIONS_SHOWN :]
        book = stock_view.book_chart(detail, past)
        charts = {each.id: stock_view.accrual_chart(detail, past, each) for each in mine[-6:]}
        return {
            "detail": detail,
            "market": market,
            "now": detail.head.timestamp,
            "price_chart": stock_view.price_chart(detail, past).draw("price"),
            "book_chart": None if book is None else book.draw("book"),
            "owner": owner,
            "mine": mine,
            "mine_charts": {name: chart.draw(f"accrual-{name}") for name, chart in charts.items() if chart is not None},
            "positions": shown,
            "left_out": len(positions) - len(shown),
            "settling_call": None if self._contracts is None else stock_view.settling_call(detail, self._contracts),
            "settler": "" if self._contracts is None else self._contracts.settler.address,
        }

"""The pages of the tournament's board and of the roulette wheel."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web

from api.cup import requests
from api.cup.service import CupService, ServiceMethod
from api.operations import Body, Json
from api.problems import Problem
from api.web.templating import PRIVATE, REVALIDATE, Pages, exact, owner_of
from core.cup.board import is_week
from core.cup.wheel import REDS

R = TypeVar("R")
B = TypeVar("B", bound=Body)

BOARD_SHOWN = 100
# The pockets of a wheel with one zero, clockwise.
POCKETS = (
    0, 32, 15, 19, 4, 21, 2, 25, 17, 34, 6, 27, 13, 36, 11, 30, 8, 23, 10, 5, 24, 16, 33, 1, 20, 14, 31, 9, 22, 18, 29,
    7, 28, 12, 35, 3, 26,
)  # fmt: skip


class CupPages:
    def __init__(self, pages: Pages, service: CupService) -> None:
        self._pages = pages
        self._service = service

    async def board(self, request: web.Request) -> web.StreamResponse:
        given = request.query.get("week", "")
        week = given if is_week(given) else None
        agents = "agents" in request.query
        owner = owner_of(request)

        async def values() -> dict[str, Any]:
            asked = requests.BoardQuery(week=week, limit=BOARD_SHOWN, wallet=owner, agents=agents)
            return {
                "board": await read(self._service, self._service.board, asked),
                "markets": await read(self._service, self._service.markets, requests.MarketsQuery(limit=100)),
                "week": week,
                "this_week": time.strftime("%G-W%V", time.gmtime()),
            }

        which = ("cup", week, "agents" if agents else None, owner)
        return await self._page(request, which, int(time.time() / 2), "The cup", values)

    async def roulette(self, request: web.Request) -> web.StreamResponse:
        owner = owner_of(request)

        async def values() -> dict[str, Any]:
            live = await read(self._service, self._service.round, requests.RoundQuery(wallet=owner))
            markets = {each["id"]: each for each in live["markets"]}
            return {
                "live": live,
                "groups": [each for each in live["markets"] if not each["id"].startswith("num:")],
                "numbers": [markets[f"num:{number}"] for number in range(37)],
                "pockets": POCKETS,
                "reds": REDS,
            }

        return await self._page(request, ("roulette", owner), int(time.time()), "Roulette", values)

    async def _page(
        self,
        request: web.Request,
        page: tuple[str | None, ...],
        stamp: int,
        title: str,
        values: Callable[[], Awaitable[dict[str, Any]]],
    ) -> web.StreamResponse:
        """Render a page. `page` starts with the page's name and ends with the owner in the query. `title` is used only
        while the tournament is closed."""
        name, owner = page[0], page[-1]

        async def render() -> bytes:
            service, path, wallet = self._service, f"/{name}", None
            try:
                shown = await values()
                if owner is not None:
                    wallet = await read(service, service.wallet, requests.WalletPath(address=owner))
            except Problem as problem:
                return self._pages.render("cup_closed.html", path=path, problem=problem, title=title)
            now = int(time.time())
            return self._pages.render(f"{name}.html", path=path, wallet=wallet, owner=owner, now=now, **shown)

        return await self._pages.answer(request, page, stamp, render, REVALIDATE if owner is None else PRIVATE)


async def read(service: CupService, method: ServiceMethod[R, B], asked: R) -> Json:
    """Return the API's response as builtins, with exact numbers."""
    body: Json = exact(await service.answer(method, asked, "pages"))
    return body

"""The pictures of shared pages: who may wait for one to be drawn."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from api.agent.reads import Reads
from api.http.problem import Problem
from api.web.sharing import MAX_WAITING, SharePictures


class SlowMarkets:
    """Markets of which nothing can be shown before `released` is set."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def outcome(self, _name: str) -> dict[str, Any]:
        return {}

    async def bundle(self, name: str) -> dict[str, Any]:
        await self.released.wait()
        times = {"deadlineAt": "2026-01-01T00:00:00Z", "opensAt": None}
        return {"market": {"question": name, "odds": None, "status": "open", **times}}


def caller(request: web.Request) -> str:
    return request.headers["Who"]


async def test_one_address_does_not_keep_others_from_their_pictures() -> None:
    markets = SlowMarkets()
    pictures = SharePictures(None, cast(Reads, markets), caller)

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await pictures.agent_market(request)
        except Problem as problem:
            return web.Response(status=problem.status, text=problem.code, headers=problem.headers)

    app = web.Application()
    app.router.add_get("/markets/{id}/share.png", answered)
    async with TestServer(app) as server, ClientSession() as session, asyncio.timeout(20), asyncio.TaskGroup() as tasks:

        async def ask(who: str, name: str) -> tuple[int, bool]:
            url = server.make_url(f"/markets/{name}/share.png")
            async with session.get(url, headers={"Who": who}) as response:
                await response.read()
                return response.status, "Retry-After" in response.headers

        many = [tasks.create_task(ask("203.0.113.1", f"m{number}")) for number in range(MAX_WAITING)]
        done, waiting = await asyncio.wait(many, timeout=1)
        other = tasks.create_task(ask("203.0.113.2", "other"))
        await asyncio.sleep(0.1)
        markets.released.set()
        assert await other == (200, False)
        assert {each.result() for each in done} == {(429, True)}
        assert 0 < len(waiting) < MAX_WAITING // 2
        assert {await each for each in waiting} == {(200, False)}

"""The pictures of shared pages: who may wait for one to be drawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from api.agent.reads import AgentReads
from api.problems import Problem
from api.stock.reads import StockReads
from api.web import sharing
from api.web.sharing import MAX_WAITING, MAX_WAITING_EACH, SharePictures
from tests.waiting import until


class SlowMarkets:
    """Markets that show nothing before `released` is set."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.asked = 0
        self.shown = 0

    async def result_of(self, _name: str) -> dict[str, Any]:
        self.asked += 1
        return {}

    async def research_bundle(self, name: str) -> dict[str, Any]:
        await self.released.wait()
        self.shown += 1
        times = {"deadlineAt": "2026-01-01T00:00:00Z", "opensAt": None}
        return {"market": {"question": name, "odds": None, "status": "open", **times}}


@dataclass(frozen=True)
class Site:
    """Requests for the pictures of some slow markets."""

    markets: SlowMarkets
    server: TestServer
    session: ClientSession
    left: list[str]  # who did not wait for an answer

    async def ask(self, who: str, name: str) -> tuple[int, bool]:
        """The status, and whether it says when to come back."""
        url = self.server.make_url(f"/markets/{name}/share.png")
        async with self.session.get(url, headers={"Who": who}) as response:
            await response.read()
            return response.status, "Retry-After" in response.headers

    async def has_been_asked(self, times: int) -> None:
        """So often, and each has its place or its refusal: nothing is waited for between the two."""
        await until(lambda: self.markets.asked >= times)


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(sharing, "FRESH_SECONDS", 10.0**9)  # no picture is redrawn during a test
    markets = SlowMarkets()
    pictures = SharePictures(cast(StockReads, None), cast(AgentReads, markets), lambda request: request.headers["Who"])

    left: list[str] = []

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await pictures.agent_market(request)
        except asyncio.CancelledError:
            left.append(request.headers["Who"])
            raise
        except Problem as problem:
            return web.Response(status=problem.status, text=problem.code, headers=problem.headers)

    app = web.Application()
    app.router.add_get("/markets/{id}/share.png", answered)
    async with TestServer(app) as server, ClientSession() as session:
        yield Site(markets, server, session, left)


async def test_one_address_does_not_keep_others_from_their_pictures(site: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        many = [tasks.create_task(site.ask("203.0.113.1", f"m{number}")) for number in range(MAX_WAITING)]
        await until(lambda: sum(each.done() for each in many) == MAX_WAITING - MAX_WAITING_EACH)
        waiting = [each for each in many if not each.done()]
        refused = [each for each in many if each.done()]
        other = tasks.create_task(site.ask("203.0.113.2", "other"))
        await site.has_been_asked(MAX_WAITING + 1)
        site.markets.released.set()
        assert await other == (200, False)
        assert {each.result() for each in refused} == {(429, True)}
        assert {await each for each in waiting} == {(200, False)}


async def test_many_behind_one_address_see_the_picture_that_is_drawn_for_one(site: Site) -> None:
    """A link posted in a chat: all who read it there ask for the same picture, which is drawn once."""
    async with asyncio.TaskGroup() as tasks:
        many = [tasks.create_task(site.ask("203.0.113.1", "one")) for _ in range(MAX_WAITING_EACH + 1)]
        strangers = [tasks.create_task(site.ask(f"203.0.113.{2 + each}", "one")) for each in range(MAX_WAITING)]
        await site.has_been_asked(len(many) + len(strangers))
        site.markets.released.set()
        assert {await each for each in (*many, *strangers)} == {(200, False)}
    assert site.markets.shown == 1


async def test_a_drawing_keeps_its_place_when_its_client_disconnects(site: Site) -> None:
    """Otherwise a caller who asks and leaves has a picture of every market drawn."""
    async with asyncio.TaskGroup() as tasks:
        many = [tasks.create_task(site.ask("203.0.113.1", f"m{number}")) for number in range(MAX_WAITING_EACH)]
        await site.has_been_asked(MAX_WAITING_EACH)
        for each in many:
            each.cancel()
        await until(lambda: len(site.left) == MAX_WAITING_EACH)
        assert await site.ask("203.0.113.1", "another") == (429, True)
        site.markets.released.set()

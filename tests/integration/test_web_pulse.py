"""The stream that tells open pages of changes."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from api.http.problem import Problem
from api.web.pulse import Pulse
from tests.waiting import PATIENCE


def caller(request: web.Request) -> str:
    return request.headers.get("Who", "203.0.113.1")


@contextlib.asynccontextmanager
async def served(pulse: Pulse):  # type: ignore[no-untyped-def]
    app = web.Application()
    app.router.add_get("/live", pulse.stream)
    running = asyncio.create_task(pulse.run())
    async with TestServer(app) as server, ClientSession() as session:
        yield session, server.make_url("/live"), running
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_a_change_is_told_and_the_end_ends_it() -> None:
    stamp = {"stock": 1, "agent": 1}
    pulse = Pulse({"stock": lambda: stamp["stock"], "agent": lambda: stamp["agent"]}, caller)
    async with served(pulse) as (session, url, running), session.get(url, params={"of": "stock"}) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert await response.content.readuntil(b"\n\n") == b"retry: 2000\n\n"
        async with asyncio.timeout(PATIENCE):
            stamp["agent"] = 2  # another page's
            stamp["stock"] = 2
            assert (await response.content.readuntil(b"\n\n")).startswith(b"data: ")
            running.cancel()
            await response.content.read()


async def test_silence_is_kept_alive_and_the_window_ends() -> None:
    pulse = Pulse({"stock": lambda: 1}, caller, heartbeat_seconds=0.05, window_seconds=0.5)
    async with served(pulse) as (session, url, _), session.get(url, params={"of": "stock"}) as response:
        async with asyncio.timeout(PATIENCE):
            body = await response.read()
    assert b": still here" in body


async def test_one_address_does_not_take_every_place() -> None:
    """Who has a place, and when it is given back, is for unit/test_places to show."""
    pulse = Pulse({"stock": lambda: 1}, caller, most_each=1)
    async with served(pulse) as (session, url, _), session.get(url, params={"of": "stock"}):
        async with session.get(url, params={"of": "stock"}, headers={"Who": "203.0.113.3"}) as other:
            assert other.status == 200
        request = type("Request", (), {"query": {"of": "stock"}, "headers": {}})()
        with pytest.raises(Problem) as refused:
            await pulse.stream(request)
    assert (refused.value.status, refused.value.code) == (429, "rate_limited")
    assert int(refused.value.headers["Retry-After"]) > 0


async def test_only_so_many_listen_at_once() -> None:
    pulse = Pulse({"stock": lambda: 1}, caller, most=0)
    request = type("Request", (), {"query": {"of": "stock"}, "headers": {"Who": "203.0.113.2"}})()
    with pytest.raises(Problem) as refused:
        await pulse.stream(request)
    assert refused.value.status == 503
    assert int(refused.value.headers["Retry-After"]) > 0
    request.query["of"] = "nothing"
    with pytest.raises(Problem) as refused:
        await pulse.stream(request)
    assert refused.value.status == 400

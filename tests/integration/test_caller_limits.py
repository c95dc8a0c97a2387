"""Limits by address hold regardless of the headers a caller sends and the wallets it names."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from api.agent.requests import TradeRequest
from api.agent.trade.orders import TradeRates
from api.app import serve
from api.limits import RateLimits, RequestQuota, blocked_region, caller_ip
from api.operations import DocumentedAnswer, Operation
from api.problems import Problem
from core.config import Settings


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Serve endpoints that only count, by address, as the trade endpoint does before it asks a node or the database."""
    given = {"DATABASE_URL": "postgresql://unused@127.0.0.1/none", "VPM_TRUST_PROXY": "1"}
    settings = Settings.model_validate(given)
    rates = TradeRates(RateLimits("memory://"), settings)

    async def who(request: web.Request) -> web.Response:
        try:
            return web.json_response(
                {"who": caller_ip(request, settings), "blocked": blocked_region(request, settings)}
            )
        except Problem as problem:
            return web.json_response({"error": problem.code}, status=problem.status)

    async def trade(request: web.Request) -> web.Response:
        asked = await TradeRequest.read(request, allow_private=False)
        paid = "PAYMENT-SIGNATURE" in request.headers
        try:
            if await rates.count_call(request, asked, paid=paid):
                await rates.count_trade(request, asked, paid=paid, settled=False)
        except Problem as problem:
            return web.json_response({"error": problem.code}, status=problem.status, headers=problem.headers)
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/who", who)
    app.router.add_post("/trade", trade)
    async with serve(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_region_header_given_twice_is_refused(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for lines, status, blocked in (
            ([("CF-IPCountry", "DE")], 200, None),
            ([("CF-IPCountry", "US")], 200, "US"),
            ([("CF-IPCountry", "DE"), ("CF-IPCountry", "US")], 400, None),
            ([("CF-IPCountry", "US"), ("CF-IPCountry", "DE")], 400, None),
        ):
            async with session.get(f"{url}/who", headers=lines) as response:
                assert response.status == status
                assert (await response.json()).get("blocked") == blocked


def a_bet(number: int) -> dict[str, object]:
    return {
        "marketId": "any",
        "side": "yes",
        "sizeUsd": 5,
        "walletAddress": "0x" + secrets.token_hex(20),
        "idemKey": f"key-{number}-{secrets.token_hex(8)}",
    }


async def test_what_is_made_for_one_request_alone_is_made_so_often_for_an_address() -> None:
    settings = Settings.model_validate({"DATABASE_URL": "postgresql://unused@127.0.0.1/none", "VPM_TRUST_PROXY": "1"})
    asked = RequestQuota(RateLimits("memory://"), settings, DocumentedAnswer("Too many."))
    done = []

    async def search(request: web.Request) -> web.Response:
        done.append(request)
        return web.Response()

    answers = {200: DocumentedAnswer("It.")}
    dear = Operation("GET", "/search", search, "Search", answers)
    held = Operation("GET", "/held", search, "From memory", answers, timed=False)
    counted, uncounted = asked.counted([dear, held])
    assert 429 in counted.answers
    assert uncounted is held
    visitor, other, ours = (
        make_mocked_request("GET", "/", headers=CIMultiDict({"X-Forwarded-For": each}))
        for each in ("203.0.113.9", "203.0.113.10", "127.0.0.1")
    )
    for _ in range(3_000):
        await counted.handler(visitor)
    with pytest.raises(Problem, match=r"3,000 requests a minute") as refused:
        await counted.handler(visitor)
    assert (refused.value.status, len(done)) == (429, 3_000)
    await counted.handler(other)
    for _ in range(3_100):
        await counted.handler(ours)


async def test_one_address_with_many_wallets_is_stopped(url: str) -> None:
    statuses = []
    async with aiohttp.ClientSession() as session:
        for number in range(320):
            body = a_bet(number)
            # The caller adds what it likes before; the proxy writes the address and the port it came from.
            headers = {"X-Forwarded-For": f"10.0.{number // 250}.{number % 250}, 203.0.113.9:{40_000 + number}"}
            async with session.post(f"{url}/trade", json=body, headers=headers) as response:
                statuses.append(response.status)
                assert response.status != 429 or int(response.headers["Retry-After"]) > 0
        async with session.post(f"{url}/trade", json=body, headers={"X-Forwarded-For": "203.0.113.10"}) as response:
            assert response.status == 200
    assert statuses == [200] * 300 + [429] * 20

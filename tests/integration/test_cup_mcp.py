"""The MCP server, spoken to by the official client."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import aiohttp
import pytest
from mcp import ClientSession
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from api.cup.mcp import TOOLS
from tests.support.cup_rig import Cup, Signer, cup_door
from tests.support.mcp_clients import answered, fails
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {
    "getting_started",
    "create_wallet",
    "list_markets",
    "get_quote",
    "place_paper_trade",
    "get_roulette_round",
    "place_roulette_bet",
    "get_positions",
    "get_leaderboard",
}


def mcp_url(cup: Cup) -> str:
    return f"{cup.url}/api/cup/mcp"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_whole_path_by_tools(cup: Cup, mode: str) -> None:
    slug, signer = await cup.market(), Signer()
    live = await cup.open_round()
    async with Client(mcp_url(cup), mode=mode) as client:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == NAMES
        assert len(listed) == 9
        guide = await answered(client, "getting_started")
        rest = (await cup.get("/getting-started")).body
        assert {**guide, "meta": 0} == {**rest, "meta": 0}
        claimed = await answered(client, "create_wallet", walletAddress=signer.address)
        assert (claimed["balancePaper"], claimed["minted"]) == (10_000, True)
        assert slug in [market["slug"] for market in (await answered(client, "list_markets", limit=100))["markets"]]
        quote = await answered(client, "get_quote", slug=slug, side="yes", sizePaper=25.05)
        body = signer.trade(slug, "yes", 2505)
        dry = await answered(client, "place_paper_trade", **body)  # simulate is not named: nothing happens
        assert dry["receipt"]["simulated"] is True
        assert await cup.balance(signer) == 10_000
        placed = await answered(client, "place_paper_trade", **body, simulate=False)
        assert placed["receipt"]["shares"] == quote["shares"]
        assert placed["receipt"]["balancePaper"] == 9974.95
        shown = await answered(client, "get_roulette_round", wallet=signer.address)
        assert (shown["roundNo"], len(shown["markets"]), shown["bets"]) == (live.round_no, 42, [])
        dry = await answered(client, "place_roulette_bet", betKey="colour:red", stakePaper=10)
        assert (dry["receipt"]["simulated"], dry["receipt"]["payIfWinPaper"]) == (True, 10)
        bet = await answered(
            client, "place_roulette_bet", **signer.bet(live.round_no, "colour:red", 1000), simulate=False
        )
        assert (bet["receipt"]["simulated"], bet["receipt"]["balancePaper"]) == (False, 9964.95)
        held = await answered(client, "get_positions", walletAddress=signer.address)
        assert [position["costPaper"] for position in held["positions"]] == [25.05]
        board = await answered(client, "get_leaderboard", wallet=signer.address, limit=5)
        assert board["you"]["rank"] is None
    await cup.finish_round(live.round_no)


async def test_refusals_are_tool_errors(cup: Cup) -> None:
    slug, signer = await cup.market(), await cup.claimed()
    closed = await cup.market(closes=timedelta(seconds=-1))
    async with Client(mcp_url(cup)) as client:
        wanted = {"slug": slug, "side": "yes", "sizePaper": 5}
        await fails(client, "get_quote", 404, "market_not_found", **{**wanted, "slug": "nope"})
        await fails(client, "get_quote", 409, "market_closed", **{**wanted, "slug": closed})
        assert (await fails(client, "get_quote", 422, "invalid_side", **{**wanted, "side": "up"}))["validSides"]
        unsigned = {**wanted, "walletAddress": signer.address, "simulate": False}
        await fails(client, "place_paper_trade", 422, "signature_required", **unsigned)
        forged = {**signer.trade(slug, "yes", 500), "sizePaper": 6, "simulate": False}
        await fails(client, "place_paper_trade", 401, "invalid_signature", **forged)
        await fails(client, "place_roulette_bet", 422, "stake_out_of_bounds", betKey="colour:red", stakePaper=9)
        await fails(client, "create_wallet", 400, "invalid_request", walletAddress="0x12")
        answer = await fails(client, "get_positions", 400, "invalid_request", walletAddress="0x12")
        assert answer["message"] == "The argument walletAddress is invalid: must be 0x and 40 hexadecimal digits."
        assert [each["field"] for each in answer["details"]] == ["walletAddress"]  # not `address`, as in the path
        answer = await fails(client, "get_positions", 400, "invalid_request", address=signer.address)
        assert [each["field"] for each in answer["details"]] == ["address"]  # which there is not
        await fails(client, "get_quote", 400, "invalid_request", slug=slug)
        answer = await fails(client, "place_paper_trade", 400, "invalid_request", **wanted, simulated=False)
        assert "'simulated'" in answer["message"]  # what is no argument may have been meant for one
        for tool in (await client.list_tools()).tools:
            assert not {"privateKey", "key", "mnemonic", "seed"} & set(tool.input_schema["properties"])


async def test_every_tool_is_409_while_dormant(database_url: str) -> None:
    async with (
        cup_door(database_url, VPM_CUP_OPENS_AT=None, VPM_CUP_CLOSES_AT=None) as door,
        Client(mcp_url(door)) as client,
    ):
        for tool in TOOLS:
            await fails(client, tool.name, 409, "cup_closed")


async def test_manifest(cup: Cup) -> None:
    manifest = (await cup.get("/api/cup/mcp.json")).body
    assert manifest["url"].endswith("/api/cup/mcp")
    assert manifest["name"]
    assert manifest["version"]
    assert [entry["type"] for entry in manifest["mcpServers"].values()] == ["http"]
    async with Client(mcp_url(cup)) as client:
        tools = (await client.list_tools()).tools
    assert [(tool["name"], tool["inputSchema"]) for tool in manifest["tools"]] == [
        (tool.name, tool.input_schema) for tool in tools
    ]


async def test_the_low_level_client_and_other_methods(cup: Cup) -> None:
    """No session: each request stands alone, so any worker may take it."""
    async with streamable_http_client(mcp_url(cup)) as (read, write), ClientSession(read, write) as session:
        first = await session.initialize()
        assert first.server_info.name == "service-cup"
        assert (await session.call_tool("list_markets", {})).is_error is False
    for method in ("GET", "DELETE"):
        async with cup.session.request(method, mcp_url(cup)) as response:
            assert response.status == 405
    async with cup.session.post(mcp_url(cup), data=b"{", headers={"Content-Type": "application/json"}) as response:
        assert response.status == 400
        assert response.headers["Cache-Control"] == "no-store"
    sent = {"data": b"x" * 70_000, "headers": {"Content-Type": "application/json"}}
    async with cup.session.post(mcp_url(cup), **sent) as response:
        assert response.status == 413


async def test_an_argument_that_is_too_large_for_its_route_is_refused_and_the_connection_goes_on(cup: Cup) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    large = {"name": "create_wallet", "arguments": {"walletAddress": "я" * 30_000}}  # twice as large in ASCII
    headers = {"Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        for name, code in ((large, "payload_too_large"), ({"name": "list_markets", "arguments": {}}, None)):
            sent = json.dumps({**call, "params": name}, ensure_ascii=False).encode()
            given = {**headers, "Content-Type": "application/json"}
            async with asyncio.timeout(PATIENCE), session.post(mcp_url(cup), data=sent, headers=given) as response:
                answer = (await response.json())["result"]
            assert answer["isError"] is (code is not None), answer
            assert code is None or code in str(answer["content"])


@pytest.mark.parametrize("body", [b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', None])
async def test_what_readers_would_read_differently_is_refused(cup: Cup, body: bytes | None) -> None:
    wanted = b'{"slug": "a", "side": "yes", "sizePaper": 1, "sizePaper": 2}'
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_quote", "arguments": %s}}'
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with cup.session.post(mcp_url(cup), data=body or call % wanted, headers=headers) as response:
        answer = await response.json()
    assert (response.status, answer["error"]["code"]) == (400, -32600)
    assert "twice" in answer["error"]["message"]
    async with cup.session.post(
        mcp_url(cup), data=b"{}", headers={**headers, "Content-Type": "text/plain"}
    ) as response:
        answer = await response.json()
    assert (response.status, answer["error"]["code"]) == (415, -32600)

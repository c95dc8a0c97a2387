"""The stock markets' MCP server, spoken to by the official client: a bet signed by a wallet, relayed by tools."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from mcp.client import Client

from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.genesis import Genesis, RunningChain
from tests.support.mcp_clients import answered, fails
from tests.support.service import Door
from tests.support.stock_chain import USDG, StockChain
from tests.support.stock_service import StockService, stock_service
from tests.waiting import until

DEV = wallets.DEV
DAY = 86_400


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    folder = tmp_path_factory.mktemp("stock-mcp")
    with stock_service(chain, database_url, local_genesis.deployments, folder) as service:
        service.start("indexer", "relayer", "api")
        yield service


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    return service.chain.open_market(strike_in=3 * DAY, lasts=DAY)


@pytest.fixture
def client(service: StockService) -> Client:
    """A context manager that the test must enter, since the task that opens the connection must close it."""
    return Client(f"{service.url}/api/stock/mcp")


def signed(prepared: dict[str, Any], who: Wallet) -> dict[str, Any]:
    message = {
        name: int(value) if name in ("value", "validAfter", "validBefore") else value
        for name, value in prepared["message"].items()
    }
    typed = {name: prepared[name] for name in ("domain", "types", "primaryType")} | {"message": message}
    signature = Account.sign_message(encode_typed_data(full_message=typed), who.private_key).signature
    return {**prepared["request"], "signature": "0x" + bytes(signature).hex()}


async def prepared(client: Client, market: int, who: Wallet, **more: Any) -> dict[str, Any]:
    given = {"marketId": str(market), "outcome": 0, "amount": str(5 * USDG), "from": who.address, **more}
    return await answered(client, "prepare_bet", **given)


def placing(arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": "place_bet", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def relayed(service: StockService) -> int:
    counted = r'^vpm_http_requests_total\{operation="post_api_relay_enter",status="200"\} (\d+)'
    return sum(map(int, re.findall(counted, service.metrics("api"), re.MULTILINE)))


async def test_an_answer_the_caller_missed_is_given_again(client: Client, service: StockService, market: int) -> None:
    """A caller that hangs up before the answer: the same bet again gives its first transaction, not a refusal."""
    who = DEV[1]
    async with client:
        body = signed(await prepared(client, market, who), who)
        raw = json.dumps(placing(body)).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        head = (
            "POST /api/stock/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Length: {len(raw)}\r\n\r\n"
        )
        before, answers = len(service.chain.positions(market)), relayed(service)
        writer.write(head.encode() + raw)
        await writer.drain()
        writer.transport.abort()
        await until(lambda: relayed(service) != answers, "the relay's answer, to no one", pause=0.1)
        checked = await answered(client, "check_bet", **body)
        assert checked["receipt"] == "confirmed"
        assert len(service.chain.positions(market)) == before + 1
    assert reader is not None


async def test_refusals_are_those_of_the_rest_api(client: Client, service: StockService, market: int) -> None:
    async with client, aiohttp.ClientSession() as session:
        door = Door(session, service.url)
        await fails(client, "get_market", 404, "market_not_found", marketId="999999")
        amount = {"marketId": str(market), "outcome": 0, "from": DEV[2].address}
        await fails(client, "prepare_bet", 400, "amount_out_of_bounds", **amount, amount=str(101 * USDG))
        await fails(client, "prepare_bet", 400, "invalid_request", **amount, amount="5.5")
        await fails(client, "get_positions", 400, "invalid_request", owner="0x12")
        body = signed(await prepared(client, market, DEV[2]), DEV[3])
        response, rest = await door.post("/api/relay/enter", body)
        said = await fails(client, "place_bet", response.status, "bad_signature", **body)
        assert said == {**rest, "status": response.status}
        unknown = await fails(client, "place_bet", 400, "invalid_request", **body, tip=1)
        assert "tip" in unknown["message"]


async def test_a_blocked_region_is_blocked_for_tools(service: StockService, market: int) -> None:
    """The proxy's header reaches the relay; nothing that a caller writes into its arguments does."""
    body = {"marketId": str(market), "outcome": 0, "amount": str(5 * USDG), "from": DEV[4].address}
    message = placing({**body, "signature": "0x" + "11" * 65})
    headers = {"Accept": "application/json, text/event-stream", "CF-IPCountry": "US"}
    url = f"{service.url}/api/stock/mcp"
    async with aiohttp.ClientSession() as session, session.post(url, json=message, headers=headers) as response:
        result = (await response.json())["result"]
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"])["error"] == "region_blocked"


async def test_the_relays_limit_counts_tools_too(service: StockService, market: int) -> None:
    async with aiohttp.ClientSession() as session:
        door, ip = Door(session, service.url), "203.0.113.77"
        answered = [(await door.post("/api/relay/enter", {}, ip=ip))[0].status for _ in range(9)]
        assert set(answered) == {400}
        message = placing({"marketId": str(market)})
        headers = {"Accept": "application/json, text/event-stream", "X-Forwarded-For": ip}
        codes = []
        for _ in range(2):
            async with session.post(f"{service.url}/api/stock/mcp", json=message, headers=headers) as response:
                codes.append(json.loads((await response.json())["result"]["content"][0]["text"])["error"])
        assert codes == ["invalid_request", "rate_limited"]


def test_the_mcp_library_is_loaded_by_the_first_call_only() -> None:
    """It takes 30 MB of each API process."""
    loaded = "import sys, api.app; print({'mcp', 'mcp_types', 'starlette'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"

"""The agents' MCP server with the official client: tools for real money, paid through x402's MCP transport."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp.client import Client

from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, sign
from tests.support.genesis import Genesis, RunningChain
from tests.support.mcp_clients import PAYMENT, fails

DEV = wallets.DEV


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("agent-mcp")
    chain.list("tools")
    private = {"VPM_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with agent_service(chain, database_url, local_genesis.deployments, folder, **private) as running:
        running.start("indexer", "relayer", "api")
        yield running


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        made = Buyer(session, service)
        await made.shows("tools")
        yield made


@pytest.fixture
def client(service: AgentService, buyer: Buyer) -> Client:
    """A context manager that the test must enter, since the task that opens the connection must close it."""
    return Client(f"{service.url}/api/agent/mcp")


def paid(terms: dict[str, Any], who: Wallet, now: int) -> dict[str, Any]:
    (accepted,) = terms["accepts"]
    envelope = sign({**accepted, "maxAmountRequired": accepted["amount"]}, who, now=now)
    return {PAYMENT: {"x402Version": 2, "payload": envelope["payload"], "accepted": accepted}}


async def asked(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool("trade", body)
    assert result.is_error
    terms: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == terms
    assert terms["x402Version"] == 2
    return terms


def wanted(service: AgentService, who: Wallet, **more: Any) -> dict[str, Any]:
    return bet(service.chain.ids["tools"], who, **more)


def clock(service: AgentService) -> int:
    now = service.chain.now
    return max(now, min(int(time.time()), now + 60))


async def test_refusals_are_those_of_the_rest_api(client: Client, buyer: Buyer, service: AgentService) -> None:
    async with client:
        body = wanted(service, DEV[1], side="sideways")
        response, rest = await buyer.post(body)
        said = await fails(client, "trade", response.status, "invalid_side", **body)
        assert {**said, "requestId": 0} == {**rest, "requestId": 0, "status": 422}
        await fails(client, "get_market", 404, "market_not_found", marketId="nope")
        await fails(client, "get_market", 400, "invalid_request")
        await fails(client, "get_quote", 422, "size_below_min", marketId=body["marketId"], side="yes", sizeUsd=0.5)
        await fails(client, "get_positions", 422, "invalid_wallet", wallet="0x12")
        await fails(client, "trade", 422, "quote_required", **wanted(service, DEV[1], size=11))
        await fails(client, "get_proof", 404, "not_found", tradeId="0x" + "00" * 32)
        unknown = await fails(client, "get_quote", 400, "invalid_request", marketId=body["marketId"], amount=5)
        assert "amount" in unknown["message"]
        assert "sizeUsd" in unknown["message"]


async def test_an_invalid_payment_gets_new_terms_with_the_reason(client: Client, service: AgentService) -> None:
    async with client:
        who, stranger = DEV[2], DEV[3]
        body = wanted(service, who)
        terms = await asked(client, body)
        for payment, reason in (
            ("nonsense", "JSON"),
            ([1, 2], "JSON object"),
            ({"x402Version": 3}, "x402Version"),
            (paid(terms, stranger, clock(service))[PAYMENT], "walletAddress"),
            ({**paid(terms, who, clock(service))[PAYMENT], "pad": "x" * 40_000}, "longer"),
        ):
            result = await client.call_tool("trade", body, meta={PAYMENT: payment})
            assert result.is_error
            assert reason in result.structured_content["error"], result.structured_content["error"]
        assert [service.chain.stake(each.address, body["idemKey"]) for each in (who, stranger)] == [None, None]


async def test_a_payment_makes_one_bet_over_rest_and_tools(client: Client, buyer: Buyer, service: AgentService) -> None:
    """Replaying it under another key is refused, and a third party gains nothing; REST and tools share the records."""
    async with client:
        who = DEV[4]
        body = wanted(service, who, side="no")
        meta = paid(await asked(client, body), who, clock(service))
        first, second = await asyncio.gather(*(client.call_tool("trade", body, meta=meta) for _ in range(2)))
        both = [each.structured_content["receipt"] for each in (first, second) if not each.is_error]
        assert both, (first, second)
        assert len({each["tradeId"] for each in both}) == 1
        assert service.chain.stake(who.address, body["idemKey"])["amount"] == 5 * USD
        response, over_http = await buyer.post(body)
        assert (response.status, over_http["replay"]) == (200, True)
        other = {**body, "idemKey": f"key-{secrets.token_hex(8)}", "side": "yes"}
        await fails(client, "trade", 422, "payment_invalid", meta=meta, **other)
        assert service.chain.stake(who.address, other["idemKey"]) is None
        await fails(client, "trade", 409, "idem_conflict", **{**body, "side": "yes"})


async def test_limits_are_shared_with_the_rest_api(client: Client, buyer: Buyer, service: AgentService) -> None:
    async with client:
        who = DEV[5]
        for _ in range(5):
            response, _ = await buyer.post(wanted(service, who), ip="127.0.0.1")
            assert response.status == 402
        for _ in range(5):
            await asked(client, wanted(service, who))
        refused = await fails(client, "trade", 429, "rate_limited", **wanted(service, who))
        assert refused["retryAfter"] > 0
        response, _ = await buyer.post(wanted(service, who), ip="127.0.0.1")
        assert response.status == 429


# ---------------------------------------------------------------- what no client sends

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def post(service: AgentService, body: bytes, **headers: str) -> tuple[int, Any]:
    url = f"{service.url}/api/agent/mcp"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=8)) as session,
        session.post(url, data=io.BytesIO(body), headers={**ACCEPT, **headers}) as response,
    ):
        return response.status, await response.text()


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def modern(method: str, name: str = "") -> dict[str, str]:
    """Return the headers of the newest protocol version, for which the SDK parses bodies differently."""
    return {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}


def tool(name: str, arguments: str) -> bytes:
    params = f'{{"name":"{name}","arguments":{arguments},"_meta":{json.dumps(MODERN)}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()


@pytest.mark.parametrize(
    "arguments",
    [
        '{"marketId":"\\ud800"}',
        '{"marketId":"a\\u0000b"}',
        '{"marketId":"../webhooks"}',
        '{"marketId":["a"]}',
        '{"marketId":{"a":1}}',
        '{"marketId":"x","side":"yes","sizeUsd":NaN}',
        '{"marketId":"x","side":"yes","sizeUsd":1e400}',
        '{"marketId":"x","side":"yes","sizeUsd":1' + "0" * 400 + "}",
        '{"marketId":"x","side":"yes","sizeUsd":5,"walletAddress":"0x","idemKey":"\\udfff\\udfff\\udfff\\udfff"}',
        '{"marketId":true,"side":1,"sizeUsd":1}',
        '{"simulate":false}',
        '{"marketId":"../v1/health","tradeId":"../v1/health"}',
        "{" + '"a":{' * 500 + '"b":1' + "}" * 501,
    ],
)
async def test_no_argument_breaks_a_tool(service: AgentService, buyer: Buyer, arguments: str) -> None:
    for name in ("get_market", "get_quote", "simulate_trade", "trade", "get_proof", "get_events"):
        no_headers: dict[str, str] = {}
        for headers in (no_headers, modern("tools/call", name)):
            status, text = await post(service, tool(name, arguments), **headers)
            assert status in (200, 400), (name, status, text)
            if result := json.loads(text).get("result"):
                body = json.loads(result["content"][0]["text"])
                assert body["status"] in (400, 404, 422), (name, body)


async def test_requests_are_bounded_in_size_and_time(service: AgentService, buyer: Buyer) -> None:
    assert (await post(service, tool("get_market", json.dumps({"marketId": "x" * 70_000}))))[0] == 413
    assert (await post(service, b"[" * 2_000_000))[0] == 413
    for body in (b"", b"{", b"[]", b"null", b"[" * 60_000, b'{"jsonrpc":"2.0","id":1}'):
        assert (await post(service, body))[0] in (400, 202), body[:20]
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"_meta": MODERN}}
    _, text = await post(service, json.dumps(listen).encode(), **modern("subscriptions/listen"))
    assert "result" not in json.loads(text or "{}")
    for method in ("GET", "DELETE", "PUT"):
        async with buyer.session.request(method, f"{service.url}/api/agent/mcp") as response:
            assert response.status == 405
            assert (await response.json())["docsUrl"]


async def test_payment_headers_of_an_mcp_call_are_ignored(client: Client, buyer: Buyer, service: AgentService) -> None:
    """A payment must be in `_meta`; a header forwarded by a proxy does not count."""
    who = DEV[6]
    body = wanted(service, who)
    async with client:
        payment = paid(await asked(client, body), who, clock(service))[PAYMENT]
    carried = base64.b64encode(json.dumps(payment).encode()).decode()
    status, text = await post(
        service, tool("trade", json.dumps(body)), **{"PAYMENT-SIGNATURE": carried, "X-PAYMENT": carried}
    )
    assert status == 200
    assert json.loads(text)["result"]["structuredContent"]["accepts"]
    assert service.chain.stake(who.address, body["idemKey"]) is None

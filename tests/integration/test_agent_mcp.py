"""The agents' MCP server, spoken to by the official client: real money by tools, paid as x402's MCP transport says."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp.client import Client

from core.agent.bet import idem_hash
from core.chain import checksum
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, sign
from tests.support.genesis import Genesis, RunningChain

DEV = wallets.DEV
PAYMENT, RESPONSE = "x402/payment", "x402/payment-response"


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("agent-mcp")
    chain.list("tools")
    with agent_service(chain, database_url, local_genesis.deployments, folder) as running:
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
    """To be entered by the test: what it opens is closed by the task that opened it."""
    return Client(f"{service.url}/api/agent/mcp")


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The structured result, having held the text to it."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    assert json.loads(result.content[0].text) == result.structured_content
    body: dict[str, Any] = result.structured_content
    return body


async def fails(
    client: Client, name: str, status: int, code: str, *, meta: dict[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    result = await client.call_tool(name, arguments, meta=meta)
    assert result.is_error, result
    assert result.structured_content is None  # clients hold it to the output schema, and show nothing else
    body: dict[str, Any] = json.loads(result.content[0].text)
    assert (body["status"], body["error"]) == (status, code), body
    return body


def paid(terms: dict[str, Any], who: Wallet, now: int) -> dict[str, Any]:
    """The `_meta` of a call that pays what was asked for, in version 2."""
    (accepted,) = terms["accepts"]
    envelope = sign({**accepted, "maxAmountRequired": accepted["amount"]}, who, now=now)
    return {PAYMENT: {"x402Version": 2, "payload": envelope["payload"], "accepted": accepted}}


async def asked(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """What a call without a payment is answered with."""
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


def staked(service: AgentService, who: Wallet, key: str) -> int:
    """What the contract holds under a wallet's key."""
    settlement = service.chain.contracts.settlement
    number = service.chain.read(settlement.call("stakeOf", checksum(who.address), idem_hash(key)))
    return 0 if number == 0 else int(service.chain.read(settlement.call("stake", number))["amount"])


async def test_a_bet_from_the_list_to_the_proof(client: Client, service: AgentService) -> None:
    async with client:
        who = DEV[0]
        listed = await call(client, "list_markets")
        (market,) = [each for each in listed["markets"] if each["id"] == service.chain.ids["tools"]]
        one = await call(client, "get_market", marketId=market["slug"])
        assert one["market"]["id"] == market["id"]
        assert (await call(client, "research_market", marketId=market["id"]))["research"]["resolutionRules"][
            "description"
        ]
        found = await call(client, "discover_markets", q=f"${market['tokenSymbol']}")
        assert market["id"] in [each["market"]["id"] for each in found["matches"]]
        assert (await call(client, "get_sentiment", token=market["tokenSymbol"]))["meta"]
        ready = await call(client, "check_wallet", wallet=who.address)
        assert ready["readiness"]["canBetMin"] is True

        quote = (await call(client, "get_quote", marketId=market["id"], side="yes", sizeUsd=25))["quote"]
        body = wanted(service, who, size=25) | {
            "quoteId": quote["quoteId"],
            "minSharesOut": quote["suggestedMinSharesOut"],
        }
        rehearsed = await call(client, "simulate_trade", **body)
        assert (rehearsed["receipt"]["simulated"], rehearsed["receipt"]["txHash"]) == (True, None)

        terms = await asked(client, body)
        assert terms["accepts"][0]["amount"] == str(25 * USD)
        assert staked(service, who, body["idemKey"]) == 0
        result = await client.call_tool("trade", body, meta=paid(terms, who, clock(service)))
        assert not result.is_error, result
        receipt = result.structured_content["receipt"]
        assert json.loads(result.content[0].text) == result.structured_content
        settled = result.meta[RESPONSE]
        assert (settled["success"], settled["transaction"], settled["network"]) == (
            True,
            receipt["txHash"],
            "eip155:8453",
        )
        assert settled["payer"].lower() == who.address.lower()
        assert staked(service, who, body["idemKey"]) == 25 * USD
        assert receipt["position"]["shares"] >= quote["suggestedMinSharesOut"]

        again = await call(client, "trade", **body)  # settled: nothing is asked for any more
        assert (again["replay"], again["receipt"]["tradeId"]) == (True, receipt["tradeId"])
        async with asyncio.timeout(15):
            while not (held := (await call(client, "get_positions", wallet=who.address))["positions"]):
                await asyncio.sleep(0.05)
        assert [each["tradeId"] for each in held] == [receipt["tradeId"]]
        assert (await call(client, "get_proof", tradeId=receipt["tradeId"]))["settlement"]["txHash"] == receipt[
            "txHash"
        ]
        assert (await call(client, "get_result", marketId=market["id"]))["result"]["status"] == "pending"
        events = await call(client, "get_events", wallet=who.address)
        assert "bet.placed" in [each["type"] for each in events["events"]]
        assert (await call(client, "get_resolved", wallet=who.address))["events"] == []
        assert (await call(client, "get_health"))["health"]["ok"] is True


async def test_refusals_are_those_of_the_rest_api(client: Client, buyer: Buyer, service: AgentService) -> None:
    """The same body but for the request's id, with the status beside it."""
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


async def test_another_form_of_payment_is_asked_for_again_with_the_reason(
    client: Client, service: AgentService
) -> None:
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
        assert staked(service, who, body["idemKey"]) == staked(service, stranger, body["idemKey"]) == 0


async def test_a_payment_serves_one_bet_by_whatever_way_it_comes(
    client: Client, buyer: Buyer, service: AgentService
) -> None:
    """Replayed under another key it is refused; a stranger who saw it gets nothing; REST and tools share one record."""
    async with client:
        who = DEV[4]
        body = wanted(service, who, side="no")
        meta = paid(await asked(client, body), who, clock(service))
        first, second = await asyncio.gather(*(client.call_tool("trade", body, meta=meta) for _ in range(2)))
        both = [each.structured_content["receipt"] for each in (first, second) if not each.is_error]
        assert both, (first, second)
        assert len({each["tradeId"] for each in both}) == 1
        assert staked(service, who, body["idemKey"]) == 5 * USD
        response, over_http = await buyer.post(body)
        assert (response.status, over_http["replay"]) == (200, True)
        other = {**body, "idemKey": f"key-{secrets.token_hex(8)}", "side": "yes"}
        await fails(client, "trade", 422, "payment_invalid", meta=meta, **other)
        assert staked(service, who, other["idemKey"]) == 0
        await fails(client, "trade", 409, "idem_conflict", **{**body, "side": "yes"})


async def test_limits_are_shared_with_the_rest_api(client: Client, buyer: Buyer, service: AgentService) -> None:
    """Ten trades a minute of a wallet from one address, by whichever way; the tool says how long to wait."""
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

"""The official x402 clients for Python and TypeScript buy from this service unchanged."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from eth_account import Account
from x402.http.utils import decode_payment_response_header

from core.money import USD
from scripts import _demo as demo
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet
from tests.support.mcp_clients import node, without_proxies

DEV = wallets.DEV
PROGRAMS = Path(__file__).resolve().parents[1] / "clients"


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("official")
    base_service.start("indexer", "relayer", "api")
    return base_service


def without_ether(service: AgentService, who: Wallet) -> None:
    service.chain.ask("anvil_setBalance", who.address, "0x0")


# The most that a client may pay at once; without it the newest clients stop above 1 USD.
LIMIT = "$100"
SIZES_USD = (1, 100)  # without a quote and below every client's own limit, and with a quote at the limit set for it


async def wanted(buyer: Buyer, who: Wallet, side: str, size: int) -> dict[str, Any]:
    body = bet(buyer.service.chain.ids["official"], who, side, size)
    if size > 10:
        _, priced = await buyer.get("/quote", marketId="official", side=side, sizeUsd=size)
        body |= {"quoteId": priced["quote"]["quoteId"], "minSharesOut": priced["quote"]["suggestedMinSharesOut"]}
    return body


def python_client(kind: type[Any], who: Wallet, limit: str | None) -> Any:
    from x402.mechanisms.evm.exact import register_exact_evm_client

    client = kind()
    register_exact_evm_client(client, Account.from_key(who.private_key))
    return client.set_spend_controls({"max_amount_per_payment": limit}) if limit else client


def by_requests(
    url: str, who: Wallet, body: dict[str, Any], limit: str | None, *policies: Any
) -> tuple[int, Any, str | None]:
    from x402 import x402ClientSync
    from x402.http.clients.requests import x402_requests

    client = python_client(x402ClientSync, who, limit)
    for each in policies:
        client.register_policy(each)
    with x402_requests(client) as session:
        session.trust_env = False
        answer = session.post(url, json=body, timeout=30)
        return answer.status_code, answer.json(), answer.headers.get("PAYMENT-RESPONSE")


async def by_httpx(url: str, who: Wallet, body: dict[str, Any], limit: str | None) -> tuple[int, Any, str | None]:
    from x402 import x402Client
    from x402.http.clients.httpx import x402HttpxClient

    async with x402HttpxClient(python_client(x402Client, who, limit), trust_env=False) as http:
        answer = await http.post(url, json=body, timeout=30)
        return answer.status_code, answer.json(), answer.headers.get("PAYMENT-RESPONSE")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library the package loads
@pytest.mark.parametrize("transport", ["requests", "httpx"])
async def test_the_python_client_buys_unchanged(buyer: Buyer, service: AgentService, transport: str) -> None:
    who = DEV[1] if transport == "requests" else DEV[3]
    without_ether(service, who)
    for size in SIZES_USD:
        body = await wanted(buyer, who, "no", size)
        limit = LIMIT if size > 1 else None
        if transport == "requests":
            status, answer, header = await asyncio.to_thread(by_requests, f"{service.api}/trade", who, body, limit)
        else:
            status, answer, header = await by_httpx(f"{service.api}/trade", who, body, limit)
        assert status == 200, answer
        assert answer["receipt"]["side"] == "no"
        settled = decode_payment_response_header(header or "")
        assert (settled.success, settled.network, settled.transaction) == (
            True,
            "eip155:8453",
            answer["receipt"]["txHash"],
        )
        assert settled.extensions == answer["extensions"]
        assert service.chain.stake(who.address, body["idemKey"])["amount"] == size * USD


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library the package loads
async def test_the_python_client_stops_at_its_own_limit_as_the_guide_says(buyer: Buyer, service: AgentService) -> None:
    from x402 import max_amount
    from x402.http.clients.requests import PaymentError

    url, body = f"{service.api}/trade", await wanted(buyer, DEV[1], "no", 5)
    with pytest.raises(PaymentError, match="spend"):
        await asyncio.to_thread(by_requests, url, DEV[1], body, None)
    # A policy picks among terms, and raises no limit.
    with pytest.raises(PaymentError, match="spend"):
        await asyncio.to_thread(by_requests, url, DEV[1], body, None, max_amount(100 * USD))


def settlement_of(body: Any, who: Wallet, network: str) -> dict[str, Any]:
    return {
        "success": True,
        "transaction": body["receipt"]["txHash"],
        "network": network,
        "payer": who.address.lower(),
        "extensions": body["extensions"],
    }


TYPESCRIPT_CLIENTS = {
    "@x402/fetch": ("buyer.mjs", "fetch", "eip155:8453", LIMIT, "spend"),
    "@x402/axios": ("buyer.mjs", "axios", "eip155:8453", None, None),
    "x402-fetch": ("buyer_v1.mjs", "fetch", "base", 100 * USD, "payment amount exceeds maximum allowed"),
    "x402-axios": ("buyer_v1.mjs", "axios", "base", None, None),
}
"""Of versions 2 and 1 of the protocol: program, client, network, the limit its owner sets, and how it stops without."""


@pytest.mark.thorough
@pytest.mark.parametrize("name", TYPESCRIPT_CLIENTS)
async def test_a_typescript_client_buys_unchanged(buyer: Buyer, service: AgentService, name: str) -> None:
    script, client, network, cap, stops = TYPESCRIPT_CLIENTS[name]
    who = DEV[[2, 4, 5, 6][list(TYPESCRIPT_CLIENTS).index(name)]]
    without_ether(service, who)

    async def pay(body: dict[str, Any], cap: str | int | None) -> dict[str, Any]:
        order = {
            "client": client,
            "url": f"{service.api}/trade",
            "privateKey": who.private_key,
            "body": body,
            "cap": cap,
        }
        done = await asyncio.to_thread(_run_node, PROGRAMS / script, json.dumps(order))
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    for size in SIZES_USD:
        body = await wanted(buyer, who, "yes", size)
        answer = await pay(body, cap)
        assert answer.get("status") == 200, answer
        receipt = answer["body"]["receipt"]
        assert (receipt["side"], receipt["simulated"]) == ("yes", False)
        assert answer["settled"] == settlement_of(answer["body"], who, network)
        assert service.chain.stake(who.address, body["idemKey"])["amount"] == size * USD
    again = await pay(body, cap)
    assert (again["status"], again["body"]["replay"], again["body"]["receipt"]) == (200, True, receipt)
    if stops is not None:
        stopped = await pay(await wanted(buyer, who, "yes", 5), None)
        assert stops in stopped["stopped"].lower()


@pytest.mark.thorough
async def test_directories_find_the_trade_and_what_it_costs(service: AgentService, buyer: Buyer) -> None:
    """`@agentcash/discovery`, which directories of paid APIs use, finds the trade and gets its challenge."""
    done = await asyncio.to_thread(_run_node, PROGRAMS / "discovery.mjs", "", service.url)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    discovered, endpoint = found["discovered"], found["endpoint"]
    assert discovered["found"] is True
    (trade,) = [each for each in discovered["endpoints"] if each["path"] == "/api/agent/v1/trade"]
    assert (trade["method"], trade["authMode"], trade["protocols"]) == ("POST", "paid", ["x402"])
    assert [each["path"] for each in discovered["endpoints"] if "price" in each] == [trade["path"]]
    (advisory,) = [each for each in endpoint["advisories"] if each["method"] == "POST"]
    assert (advisory["authMode"], advisory["protocols"]) == ("paid", ["x402"])
    # The example in the description is a bet that works: posted as it stands, it is a challenge.
    async with buyer.session.get(f"{service.url}/openapi.json") as response:
        operation = (await response.json())["paths"]["/api/agent/v1/trade"]["post"]
    assert operation["x-payment-info"]["price"] == {
        "mode": "dynamic",
        "currency": "USD",
        "min": "1",
        "max": "1000000000",
    }
    example = operation["requestBody"]["content"]["application/json"]["example"]
    response, challenge = await buyer.post(example)
    assert (response.status, challenge["accepts"][0]["maxAmountRequired"]) == (402, "1000000")
    async with buyer.session.get(f"{service.url}/.well-known/x402") as response:
        listed = await response.json()
    assert (listed["version"], listed["resources"]) == (1, [f"{service.api}/trade"])


@pytest.mark.thorough
async def test_the_demo_of_the_local_stack_trades(
    buyer: Buyer, service: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, dice = wallets.BETTORS[1], random.Random(7)
    with httpx.Client(trust_env=False) as http:
        client = demo.client_of(service.url, who, http)
        for size in (5, 25):
            monkeypatch.setattr(demo, "SIZES_USD", (size,))
            assert await asyncio.to_thread(demo.trade, client, dice)
        _, book = await buyer.get("/positions", wallet=who.address)
        assert sorted(each["stakedUsd"] for each in book["positions"]) == [5, 25]
        monkeypatch.setattr(demo, "MIN_LEFT_SECONDS", 10**9)
        assert not await asyncio.to_thread(demo.trade, client, dice)


def _run_node(script: Path, given: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(), str(script), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        env=without_proxies(),
        check=False,
    )

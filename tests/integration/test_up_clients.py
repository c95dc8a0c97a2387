"""One running `./vpm up`, and who knows nothing of it but its address: the official MCP clients (Python, TypeScript,
MCP Inspector of both versions, x402's own paying client), and a newcomer who runs the examples of docs/guide.md."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from core.paths import REPOSITORY
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.buyer import sign
from tests.support.genesis import Genesis
from tests.support.mcp_clients import (
    Asked,
    Call,
    Refused,
    inspector_1,
    inspector_2,
    paying_client,
    python_client,
    typescript_client,
)
from tests.support.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(300)

DEV = wallets.DEV
CLIENTS = [python_client, typescript_client]
IDS = ["python", "typescript"]


@pytest.fixture(scope="module")
def stack(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack_of(local_genesis, tmp_path_factory.mktemp("tools")) as running:
        running.ready()
        yield running
        assert running.stop() == 0


@pytest.fixture
async def origin(stack: Stack) -> str:
    """The service's, once markets of each kind take bets."""
    found = f"http://127.0.0.1:{stack.port}"
    async with aiohttp.ClientSession() as session, asyncio.timeout(120):
        while not (await read(session, f"{found}/api/agent/v1/markets?type=market_cap"))["markets"]:
            await asyncio.sleep(0.2)
        while not any(each["acceptingBets"] for each in (await read(session, f"{found}/api/markets"))["markets"]):
            await asyncio.sleep(0.2)
        while not (await read(session, f"{found}/api/cup/v1/markets")).get("markets"):
            await asyncio.sleep(0.2)
    return found


async def read(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        return await response.json()


def wanted(market: dict[str, Any], who: Wallet, size: float = 1) -> dict[str, Any]:
    return {
        "marketId": market["id"],
        "side": "yes",
        "sizeUsd": size,
        "idemKey": f"key-{secrets.token_hex(8)}",
        "walletAddress": who.address,
    }


async def binary_market(call: Call) -> dict[str, Any]:
    """The one that is open for longest."""
    found: dict[str, Any] = (await call("list_markets", type="market_cap", limit=200))["markets"][-1]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("connected", CLIENTS, ids=IDS)
async def test_the_official_clients_bet_dollars(origin: str, connected: Any) -> None:
    """Challenge, payment, receipt, replay and refusals; each client holds every result to the tool's schema."""
    who = DEV[1 + CLIENTS.index(connected)]
    async with connected(f"{origin}/api/agent/mcp") as (tools, call):
        assert len(tools) == 14
        market = await binary_market(call)
        for name, given in (
            ("research_market", {"marketId": market["id"]}),
            ("discover_markets", {}),
            ("get_market", {"marketId": market["id"]}),
            ("get_sentiment", {"token": market["tokenSymbol"]}),
            ("check_wallet", {"wallet": who.address}),
            ("get_result", {"marketId": market["id"]}),
            ("get_events", {"wallet": who.address}),
            ("get_health", {}),
        ):
            assert (await call(name, **given))["meta"], name
        with pytest.raises(Refused) as refused:
            await call("get_quote", marketId=market["id"], side="neither", sizeUsd=5)
        assert (refused.value.body["error"], refused.value.body["status"]) == ("invalid_side", 422)
        assert (await call("get_quote", marketId=market["id"], side="yes", sizeUsd=1))["quote"]["estimatedShares"] > 0
        body = wanted(market, who)
        assert (await call("simulate_trade", **body))["receipt"]["simulated"] is True
        with pytest.raises(Asked) as asked:
            await call("trade", **body)
        (accepted,) = asked.value.terms["accepts"]
        envelope = sign({**accepted, "maxAmountRequired": accepted["amount"]}, who, now=int(time.time()))
        payment = {"x402Version": 2, "payload": envelope["payload"], "accepted": accepted}
        done = await call("trade", payment=payment, **body)
        assert done["settled"]["transaction"] == done["receipt"]["txHash"]
        assert (await call("trade", **body))["replay"] is True
        with pytest.raises(Refused, match="idem_conflict"):
            await call("trade", **{**body, "side": "no"})
        async with asyncio.timeout(30):
            while not (held := (await call("get_positions", wallet=who.address))["positions"]):
                await asyncio.sleep(0.2)
        assert [(each["tradeId"], each["stakedUsd"]) for each in held] == [(done["receipt"]["tradeId"], 1)]
        proof = await call("get_proof", tradeId=done["receipt"]["tradeId"])
        assert proof["settlement"]["txHash"] == done["receipt"]["txHash"]


@pytest.mark.thorough
@pytest.mark.parametrize("connected", CLIENTS, ids=IDS)
async def test_the_official_clients_bet_on_stocks(origin: str, connected: Any) -> None:
    who = DEV[3 + CLIENTS.index(connected)]
    async with connected(f"{origin}/api/stock/mcp") as (tools, call):
        assert len(tools) == 7
        open_now = [each for each in (await call("list_markets"))["markets"] if each["acceptingBets"]]
        market = max(open_now, key=lambda each: int(each["finalTime"]))
        assert (await call("get_market", marketId=market["id"]))["market"]["id"] == market["id"]
        assert (await call("get_prices"))["readings"]
        given = {"marketId": market["id"], "outcome": 1, "amount": "2000000", "from": who.address}
        prepared = await call("prepare_bet", **given)
        message = {
            name: int(value) if name in ("value", "validAfter", "validBefore") else value
            for name, value in prepared["message"].items()
        }
        typed = {name: prepared[name] for name in ("domain", "types", "primaryType")} | {"message": message}
        signature = Account.sign_message(encode_typed_data(full_message=typed), who.private_key).signature
        body = {**prepared["request"], "signature": "0x" + bytes(signature).hex()}
        placed = await call("place_bet", **body)
        assert placed["ok"] is True
        with pytest.raises(Refused, match="already_used") as raised:
            await call("check_bet", **body)
        assert raised.value.body["txHash"] == placed["txHash"]
        async with asyncio.timeout(30):
            while not (held := (await call("get_positions", owner=who.address))["positions"]):
                await asyncio.sleep(0.2)
        assert [each["id"] for each in held] == [placed["positionId"]]
        with pytest.raises(Refused, match="amount_out_of_bounds"):
            await call("prepare_bet", **{**given, "amount": "101000000"})


@pytest.mark.thorough
@pytest.mark.parametrize("inspector", [inspector_1, inspector_2])
async def test_the_inspector_lists_and_calls(origin: str, inspector: Any) -> None:
    """A refusal shows its reason, not a mismatch of schemas; an unpaid call shows what it would have to pay."""
    async with inspector(f"{origin}/api/agent/mcp") as (tools, call):
        assert len(tools) == 14
        market = await binary_market(call)
        quote = await call("get_quote", marketId=market["id"], side="yes", sizeUsd=5)
        assert quote["quote"]["sizeUsd"] == 5
        with pytest.raises(Refused, match="market_not_found"):
            await call("get_market", marketId="nope")
        with pytest.raises(Asked) as asked:
            await call("trade", **wanted(market, DEV[0]))
        assert asked.value.terms["accepts"][0]["amount"] == "1000000"
    async with inspector(f"{origin}/api/stock/mcp") as (tools, call):
        assert len(tools) == 7
        assert (await call("list_markets", limit=1))["markets"]
        with pytest.raises(Refused, match="market_not_found"):
            await call("get_market", marketId="999999")
    async with inspector(f"{origin}/api/cup/mcp") as (tools, call):
        assert len(tools) == 9
        assert (await call("list_markets", limit=1))["markets"]
        with pytest.raises(Refused, match="market_not_found"):
            await call("get_quote", slug="nope", side="yes", sizePaper=5)


@pytest.mark.thorough
async def test_x402s_own_client_pays_unasked(origin: str) -> None:
    """Two bets, one above what needs a quote; and a refusal, for which nothing is paid."""
    who = DEV[5]
    async with python_client(f"{origin}/api/agent/mcp") as (_, call):
        market = await binary_market(call)
        small, large, wrong = wanted(market, who), wanted(market, who, 25), wanted(market, who, 1)
        calls = [("trade", large), ("trade", small), ("trade", {**wrong, "side": "neither"})]
        first, second, third = await asyncio.to_thread(paying_client, f"{origin}/api/agent/mcp", who.private_key, calls)
        for each, body in ((first, large), (second, small)):
            assert (each["isError"], each["paid"]) == (False, True), each
            receipt = json.loads(each["text"])["receipt"]
            assert receipt["sizeUsd"] == body["sizeUsd"]
            assert each["settled"]["transaction"] == receipt["txHash"]
        assert (third["isError"], third["paid"]) == (True, False)
        assert json.loads(third["text"])["error"] == "invalid_side"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bet", "buy", "bound", "paid_tools", "paper", "tools"])
async def test_an_example_runs_as_it_stands(origin: str, name: str) -> None:
    env = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(REPOSITORY / "docs" / "examples" / f"{name}.py")],
        env={**env, "VPM_URL": origin, "VPM_KEY": DEV[0].private_key},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = {
        "bet": "accepted",
        "buy": "proof",
        "bound": "if it wins",
        "paid_tools": "paid by 0x",
        "paper": "balance 9975",
        "tools": "place_roulette_bet",
    }
    assert said[name] in done.stdout


def test_every_example_is_in_the_guide_and_the_other_way_round() -> None:
    guide = (REPOSITORY / "docs" / "guide.md").read_text()
    examples = {path.name for path in (REPOSITORY / "docs" / "examples").glob("*.py")}
    assert examples == {name for name in examples if f"(examples/{name})" in guide}
    assert guide.count("(examples/") == len(examples)

"""The official x402 clients, which know nothing of this service, buy from it unchanged: Python and TypeScript."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from eth_account import Account

from core.chain import checksum
from core.mirror.bet import idem_hash
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, RunningChain

DEV = wallets.DEV
TYPESCRIPT_BUYER = Path(__file__).resolve().parents[1] / "clients" / "buyer.mjs"


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("agent")
    chain.list("official")
    with agent_service(chain, database_url, local_genesis.deployments, folder) as running:
        running.start("indexer", "relayer", "api")
        yield running


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        made = Buyer(session, service)
        await made.shows("official")
        yield made


def stake_of(service: AgentService, who: Wallet, key: str) -> dict[str, Any]:
    """What the contract holds under a wallet's key."""
    settlement = service.chain.contracts.settlement
    number = service.chain.read(settlement.call("stakeOf", checksum(who.address), idem_hash(key)))
    assert number != 0, "nothing was settled"
    found: dict[str, Any] = service.chain.read(settlement.call("stake", number))
    return found


def without_ether(service: AgentService, who: Wallet) -> None:
    service.chain.ask("anvil_setBalance", who.address, "0x0")


@pytest.mark.proves(
    "agent.trade.payment.decision.official_clients",
    "agent.service.auth.x402_payment",
    "agent.service.behaviour.gasless",
    "agent.service.behaviour.wallet_is_account",
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library the package loads
async def test_the_python_client_buys_unchanged(buyer: Buyer, service: AgentService) -> None:
    from x402 import x402ClientSync
    from x402.http.clients.requests import x402_requests
    from x402.mechanisms.evm.exact import register_exact_evm_client

    who = DEV[1]
    without_ether(service, who)
    client = x402ClientSync()
    register_exact_evm_client(client, Account.from_key(who.private_key))
    body = bet(service.chain.ids["official"], who, "no", 1)  # what the client pays unasked, by its own default limit

    def buy() -> tuple[int, Any, str]:
        with x402_requests(client) as session:
            session.trust_env = False
            answer = session.post(f"{service.api}/trade", json=body, timeout=30)
            return answer.status_code, answer.json(), answer.headers["X-Payment-Response"]

    status, answer, settlement = await asyncio.to_thread(buy)
    assert status == 200, answer
    assert answer["receipt"]["side"] == "no"
    assert settlement
    assert stake_of(service, who, body["idemKey"])["amount"] == 1_000_000


@pytest.mark.proves("agent.trade.payment.decision.official_clients")
async def test_the_typescript_client_buys_unchanged(buyer: Buyer, service: AgentService) -> None:
    """`@x402/fetch` with `@x402/evm`, run by the environment's Node; it answers a v1 challenge in the v1 form."""
    who = DEV[2]
    without_ether(service, who)
    body = bet(service.chain.ids["official"], who, "yes", 1)
    given = {"url": f"{service.api}/trade", "body": body, "privateKey": who.private_key}
    done = await asyncio.to_thread(_run_node, TYPESCRIPT_BUYER, json.dumps(given))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == 200, answer
    receipt = answer["body"]["receipt"]
    assert (receipt["side"], receipt["simulated"]) == ("yes", False)
    assert answer["settled"] == {
        "success": True,
        "transaction": receipt["txHash"],
        "network": "base",
        "payer": who.address.lower(),
    }
    assert stake_of(service, who, body["idemKey"])["amount"] == 1_000_000
    # The same call once more: the client is not even asked to pay.
    again = json.loads((await asyncio.to_thread(_run_node, TYPESCRIPT_BUYER, json.dumps(given))).stdout)
    assert (again["status"], again["body"]["replay"], again["body"]["receipt"]) == (200, True, receipt)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library the package loads
@pytest.mark.parametrize("kind", ["OfficialTrader", "BoundTrader"])
async def test_the_demo_of_the_local_stack_trades(
    buyer: Buyer, service: AgentService, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Its agents buy by the official client and in the receive form, in both tiers, and pass over markets that are
    about to close."""
    from scripts._demo import agent

    who, dice = wallets.BETTORS[0 if kind == "OfficialTrader" else 1], random.Random(7)
    trader = await asyncio.to_thread(getattr(agent, kind), service.url, who)
    for size in (5, 25):
        monkeypatch.setattr(agent, "SIZES_USD", (size,))
        assert await asyncio.to_thread(trader.trade, dice)
    _, book = await buyer.get("/positions", wallet=who.address)
    assert sorted(each["stakedUsd"] for each in book["positions"]) == [5, 25]
    monkeypatch.setattr(agent, "LEAST_LEFT_SECONDS", 10**9)
    assert not await asyncio.to_thread(trader.trade, dice)


def _run_node(script: Path, given: str) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    assert node is not None, "Node is part of the environment: run this through ./vpm test"
    # Without the caller's proxies: the service is on this machine.
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(
        [node, str(script)], input=given, capture_output=True, text=True, timeout=60, env=env, check=False
    )

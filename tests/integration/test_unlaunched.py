"""Before the contracts are deployed, on either side: empty lists, and what says that no bets are taken yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.agent.index import AgentIndex
from api.stock.bodies import MarketsBody, OwnerBody, PricesBody
from api.stock.health import HealthBody
from api.stock.proof_facts import ProofBody
from core.db.engine import make_engine
from core.paths import REPOSITORY
from scripts._stack import wallets
from tests.support.bodies import hold
from tests.support.genesis import Genesis, RunningChain
from tests.support.service import Door
from tests.support.stock_chain import StockChain
from tests.support.stock_service import StockService, stock_service


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    """With the deployment files as they are in the repository, which no contract is deployed by."""
    chain = StockChain.on(stock_chain.url, local_genesis.deployment("stock"))
    folder = tmp_path_factory.mktemp("unlaunched")
    with stock_service(chain, database_url, REPOSITORY / "deployments", folder) as service:
        service.start("api")
        yield service


async def test_reads_are_empty(door: Door) -> None:
    response, body = await door.get("/api/markets")
    hold(MarketsBody, body)
    assert (response.status, body["deployed"], body["status"], body["markets"]) == (200, False, "not-deployed", [])
    response, body = await door.get(f"/api/positions?owner={wallets.DEV[1].address}")
    hold(OwnerBody, body)
    assert (response.status, body["deployed"], body["positions"]) == (200, False, [])
    response, body = await door.get("/api/proof")
    hold(ProofBody, body)
    assert (response.status, body["status"], body["contracts"], body["settled"]) == (200, "not-deployed", [], [])
    response, body = await door.get("/api/markets/1")
    assert (response.status, body["error"]) == (404, "market_not_found")
    response, body = await door.get("/api/prices")
    hold(PricesBody, body)
    assert response.status == 200
    response, body = await door.get("/api/health")
    hold(HealthBody, body)
    assert body["deployed"] is False


async def test_the_relay_refuses(service: StockService, door: Door) -> None:
    body = service.chain.signed(wallets.DEV[1], service.chain.bet(wallets.DEV[1], 1))
    for each in (body, {}):
        response, answer = await door.post("/api/relay/enter", each)
        assert (response.status, answer["error"]) == (503, "not_deployed")
    response, answer = await door.get("/api/relay/typed-data?marketId=1&outcome=0&amount=5000000")
    assert (response.status, answer["error"]) == (503, "not_deployed")


AGENT = "/api/agent/v1"
NOT_DEPLOYED = "The settlement contract is not deployed yet."
WALLET = wallets.DEV[1].address.lower()


async def test_agents_read_that_there_is_nothing_yet(door: Door) -> None:
    for path in (f"{AGENT}/markets", f"{AGENT}/positions?wallet={WALLET}", f"{AGENT}/discover?q=bnkr"):
        response, body = await door.get(path)
        assert (response.status, body.get("count")) == (200, 0), path
    for path in (f"{AGENT}/stats", f"{AGENT}/sentiment?token=BNKR", f"{AGENT}/getting-started", "/", "/agents.txt"):
        response, body = await door.get(path)
        assert response.status == 200, f"{path}: {body}"
    _, body = await door.get(f"{AGENT}/stats")
    assert body["stats"]["custody"] == "No settlement contract is deployed yet, so no money is held."
    for path in (f"{AGENT}/markets/bnkr-100m", f"{AGENT}/result?marketId=bnkr-100m", f"{AGENT}/proof/0x{'11' * 32}"):
        response, body = await door.get(path)
        assert response.status == 404, f"{path}: {body}"
    response, body = await door.get(f"{AGENT}/health")
    health = body["health"]
    assert (response.status, health["ok"], health["marketsOpen"], health["reason"]) == (200, False, 0, NOT_DEPLOYED)


async def test_an_agents_trade_is_refused_because_nothing_is_deployed(door: Door) -> None:
    trade = {"marketId": "bnkr-100m", "side": "yes", "sizeUsd": 5, "walletAddress": WALLET, "idemKey": "first-of-all"}
    for simulate in (True, False):
        response, body = await door.post(f"{AGENT}/trade", {**trade, "simulate": simulate})
        assert (response.status, body["error"], body["message"]) == (503, "platform_paused", NOT_DEPLOYED)
    response, body = await door.post(f"{AGENT}/trade", {**trade, "sizeUsd": 0})
    assert (response.status, body["error"]) == (400, "invalid_request")


async def test_what_cannot_be_read_is_not_said_to_be_empty() -> None:
    nowhere = "postgresql://unused:none@127.0.0.1:9/nothing"
    engine = make_engine(nowhere)
    index = AgentIndex(nowhere, engine, 8453, {}, deployed=False)
    await index.refresh()
    assert index.snapshot is None
    await engine.dispose()

"""What an open position is projected to be paid is what it is paid, once nothing more is staked."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts._stack import wallets
from tests.support.agent_chain import CAP, AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, RunningChain
from tests.support.relations import contradictions, read

pytestmark = pytest.mark.thorough

BETTORS = wallets.DEV[:8]


@pytest.fixture
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path: Path
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    chain.list("threshold")
    chain.list("ladder", kind=1, bounds=[CAP // 2, CAP])
    with agent_service(chain, database_url, local_genesis.deployments, tmp_path) as running:
        running.start("indexer", "relayer", "api")
        yield running


@pytest.mark.timeout(300)
async def test_what_is_projected_is_what_resolution_pays(service: AgentService) -> None:
    draw = random.Random(4)
    paid_out: dict[str, Decimal] = {}
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        for market in ("threshold", "ladder"):
            await buyer.shows(market)
            _, shown = await buyer.get(f"/markets/{market}")
            keys = [each["key"] for each in shown["market"]["outcomes"]]
            for number, who in enumerate(BETTORS):
                side = keys[number] if number < len(keys) else draw.choice(keys)
                size = draw.randrange(1_000_000, 10_000_001) / 1e6
                response, paid = await buyer.buy(bet(market, who, side, size), who)
                assert response.status == 200, paid
        projected = await _positions(buyer, "open")
        for market in ("threshold", "ladder"):
            service.chain.settle(market, CAP * 2)
        for trade_id, after in (await _positions(buyer, "resolved")).items():
            if after["status"] == "resolved-won":
                paid_out[trade_id] = after["payoutUsd"]
    assert paid_out == {trade_id: projected[trade_id]["projectedPayoutUsd"] for trade_id in paid_out}
    assert len(paid_out) >= 2


async def _positions(buyer: Buyer, status: str) -> dict[str, dict[str, Any]]:
    """Wait until every position is indexed with this status; return them by trade."""
    deadline = time.monotonic() + 30
    while True:
        held: dict[str, dict[str, Any]] = {}
        for who in BETTORS:
            async with buyer.session.get(f"{buyer.service.api}/positions?wallet={who.address}") as response:
                body = read(await response.read())
            assert not contradictions(body)
            held |= {each["tradeId"]: each for each in body["positions"]}
        if len(held) == 2 * len(BETTORS) and all(each["status"].startswith(status) for each in held.values()):
            return held
        assert time.monotonic() < deadline, held
        await asyncio.sleep(0.2)

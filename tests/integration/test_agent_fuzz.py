"""Generated requests against the published description of the agent surface: every answer is one it describes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.direct import DIRECT
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.generated import generated_requests
from tests.support.genesis import Genesis, RunningChain

pytestmark = pytest.mark.thorough

DEV = wallets.DEV
PREFIX = "/api/agent/v1"


@pytest.fixture
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path: Path
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    chain.observe(80_000_000 * 10**8)
    chain.list("threshold")
    chain.list("ladder", kind=1, bounds=[50_000_000 * 10**8, 100_000_000 * 10**8])
    chain.list("updown", kind=2)
    # Streams end at once, or each would be waited for.
    env = {"VPM_AGENT_STREAM_SECONDS": "0.1", "VPM_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with agent_service(chain, database_url, local_genesis.deployments, tmp_path, **env) as running:
        running.start("indexer", "relayer", "api")
        yield running


async def a_trade(service: AgentService) -> str:
    """Something for the reads to find; its id."""
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows("updown")
        response, paid = await buyer.buy(bet("threshold", DEV[0]), DEV[0])
        assert response.status == 200, paid
        return str(paid["receipt"]["tradeId"])


@pytest.mark.timeout(900)
def test_every_answer_is_one_the_description_has(service: AgentService) -> None:
    """No server error, no status, header or body that is not described; what breaks the description is refused."""
    trade_id = asyncio.run(a_trade(service))
    document = f"{service.url}/openapi/agent.json"
    with DIRECT.open(document) as response:
        described: dict[str, Any] = json.load(response)
    every = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    asked = every - {f"GET {PREFIX}/events"}  # a stream stays open
    ids = service.chain.ids
    real = bet(ids["threshold"], DEV[1], size=2)
    seen = generated_requests(
        document,
        known={
            "id": [ids["threshold"], ids["ladder"]],
            "marketId": [ids["threshold"]],
            "side": ["yes", "no"],
            "sizeUsd": [1, 2.5, 11],
            "wallet": [DEV[0].address],
            "address": [DEV[0].address],
            "walletAddress": [DEV[1].address, DEV[2].address],
            "tradeId": [trade_id],
            "token": ["BNKR"],
            f"POST {PREFIX}/trade": [
                {**real, "simulate": True},
                real,
                {**real, "side": "neither"},
                {**real, "marketId": "no-such-market"},
            ],
        },
        only=asked,
        examples=20,
    )
    # A registration needs the wallet's signature over a message of the last minutes, so none exists here.
    webhooks = {each for each in asked if "/webhooks" in each}
    seen.reached(
        {
            f"POST {PREFIX}/trade": {200, 400, 402, 404, 422},
            f"GET {PREFIX}/quote": {200, 400, 404, 422},
            f"GET {PREFIX}/proof/{{tradeId}}": {200, 404},
        },
        refuse=webhooks,
    )

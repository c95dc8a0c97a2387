"""The event channels through the door: bets, resolutions and payouts told on streams, replay and polling alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from scripts._stack import wallets
from tests.support.agent_service import AgentChain, AgentService, Buyer, agent_service, bet
from tests.support.genesis import Genesis, RunningChain

DEV = wallets.DEV


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    folder: Path = tmp_path_factory.mktemp("events")
    chain.list("told")
    with agent_service(
        chain, database_url, local_genesis.deployments, folder, VPM_ALLOW_PRIVATE_WEBHOOKS="1"
    ) as running:
        running.start("indexer", "relayer", "api")
        yield running


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        made = Buyer(session, service)
        await made.shows("told")
        yield made


async def test_a_bet_is_told_in_replay_and_stream_alike(buyer: Buyer) -> None:
    who = DEV[1]
    response, paid = await buyer.buy(bet("told", who), who)
    assert response.status == 200, paid
    response, body = await buyer.get("/events/replay", wallet=who.address)
    assert response.status == 200, body
    print(json.dumps(body, indent=1))
    assert [each["type"] for each in body["events"]] == ["bet.settlement_submitted", "bet.placed"]
    async with buyer.session.get(f"{buyer.service.api}/events", params={"wallet": who.address}) as stream:
        assert stream.status == 200
        text = await stream.content.readuntil(b"bet.placed")
        print(text)

"""Generated requests against the published description of the event channels: every answer is as described."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.generated import generated_requests
from tests.support.genesis import Genesis, RunningChain
from tests.support.webhook_receiver import registered, registration

DEV = wallets.DEV
API = "/api/agent/v1"


@pytest.fixture
def service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path: Path
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    chain.list("described")
    # Streams end at once, or each would be waited for.
    env = {"VPM_AGENT_STREAM_SECONDS": "0.1", "VPM_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with agent_service(chain, database_url, local_genesis.deployments, tmp_path, **env) as running:
        running.start("indexer", "relayer", "api")
        yield running


async def _something_to_show(service: AgentService) -> list[str]:
    """A placed bet, and webhooks, whose ids are returned."""
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows("described")
        response, paid = await buyer.buy(bet("described", DEV[1]), DEV[1])
        assert response.status == 200, paid
        urls = [f"http://127.0.0.1:9/{number}" for number in range(4)]
        return [(await registered(buyer, DEV[1], url))["id"] for url in urls]


@pytest.mark.timeout(600)
@pytest.mark.thorough
def test_every_answer_is_documented(service: AgentService) -> None:
    ids = asyncio.run(_something_to_show(service))
    document = f"{service.url}/openapi/agent.json"
    known = {
        "wallet": [DEV[1].address],
        "id": ids,
        f"POST {API}/webhooks": [registration(DEV[2], "http://127.0.0.1:9/", service=service.url)],
    }
    seen = generated_requests(
        document,
        known=known,
        examples=20,
        only=[
            f"GET {API}/events",
            f"GET {API}/events/replay",
            f"GET {API}/resolved",
            f"POST {API}/webhooks",
            f"GET {API}/webhooks/{{id}}",
            f"POST {API}/webhooks/{{id}}/test",
        ],
    )
    seen.reached(
        {
            f"GET {API}/events": {200, 400, 422},
            f"GET {API}/events/replay": {200, 400, 422},
            f"GET {API}/resolved": {200, 400, 422},
            f"POST {API}/webhooks": {201, 400, 422},
            f"GET {API}/webhooks/{{id}}": {200, 404},
            f"POST {API}/webhooks/{{id}}/test": {200, 404},
        }
    )
    gone = generated_requests(document, known=known, examples=20, only=[f"DELETE {API}/webhooks/{{id}}"])
    gone.reached({f"DELETE {API}/webhooks/{{id}}": {200, 404}})

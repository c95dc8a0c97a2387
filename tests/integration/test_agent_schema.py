"""Generated requests against the published description of the agent surface: every answer matches it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from scripts._local.ports import DIRECT
from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet
from tests.support.generated_requests import generated_requests
from tests.support.webhook_receiver import registered, registration

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

DEV = wallets.DEV
PREFIX = "/api/agent/v1"
CHANNELS = {
    f"GET {PREFIX}/events",
    f"GET {PREFIX}/events/replay",
    f"GET {PREFIX}/resolved",
    f"POST {PREFIX}/webhooks",
    f"GET {PREFIX}/webhooks/{{id}}",
    f"POST {PREFIX}/webhooks/{{id}}/test",
}
# Asked last: it removes what the others ask about.
REMOVAL = f"DELETE {PREFIX}/webhooks/{{id}}"


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.observe(80_000_000 * 10**8)
    chain.list("threshold")
    chain.list("ladder", kind=1, bounds=[50_000_000 * 10**8, 100_000_000 * 10**8])
    chain.list("updown", kind=2)
    # Streams end at once, or each would be waited for.
    base_service.configure(VPM_AGENT_STREAM_SECONDS="0.1", VPM_ALLOW_PRIVATE_WEBHOOKS="1")
    base_service.start("indexer", "relayer", "api")
    return base_service


async def something_to_show(service: AgentService) -> tuple[str, list[str]]:
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows("updown")
        response, paid = await buyer.buy(bet("threshold", DEV[0]), DEV[0])
        assert response.status == 200, paid
        hooks = [await registered(buyer, DEV[0], f"http://127.0.0.1:9/{number}") for number in range(4)]
        return str(paid["receipt"]["tradeId"]), [each["id"] for each in hooks]


def test_every_answer_matches_the_description(service: AgentService) -> None:
    trade_id, hooks = asyncio.run(something_to_show(service))
    document = f"{service.url}/openapi/agent.json"
    with DIRECT.open(document) as response:
        described: dict[str, Any] = json.load(response)
    every = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
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
        only=every - CHANNELS - {REMOVAL},
        examples=20,
    )
    seen.reached(
        {
            f"POST {PREFIX}/trade": {200, 400, 402, 404, 422},
            f"GET {PREFIX}/quote": {200, 400, 404, 422},
            f"GET {PREFIX}/proof/{{tradeId}}": {200, 404},
        }
    )
    known = {
        "wallet": [DEV[0].address],
        "id": hooks,
        f"POST {PREFIX}/webhooks": [registration(DEV[2], "http://127.0.0.1:9/", service=service.url)],
    }
    generated_requests(document, known=known, examples=20, only=CHANNELS).reached(
        {
            f"GET {PREFIX}/events": {200, 400, 422},
            f"GET {PREFIX}/events/replay": {200, 400, 422},
            f"GET {PREFIX}/resolved": {200, 400, 422},
            f"POST {PREFIX}/webhooks": {201, 400, 422},
            f"GET {PREFIX}/webhooks/{{id}}": {200, 404},
            f"POST {PREFIX}/webhooks/{{id}}/test": {200, 404},
        }
    )
    removed = generated_requests(document, known=known, examples=20, only=[REMOVAL])
    removed.reached({REMOVAL: {200, 404}})

"""Many trades at once: as many as possible are checked in time, and the others get a Retry-After."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from scripts._stack import wallets
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet

CROWD = 300


@pytest.fixture
async def market(buyer: Buyer, service: AgentService) -> str:
    name = service.chain.list("t-crowd")
    await buyer.shows(name)
    return name


async def test_each_call_of_a_crowd_gets_a_challenge_or_a_retry_after(buyer: Buyer, market: str) -> None:
    """Each caller has another address, so no limit per caller applies."""
    await buyer.challenged(bet(market, wallets.DEV[0]))
    answers = await asyncio.gather(*(buyer.post(bet(market, wallets.DEV[n % 8])) for n in range(CROWD)))
    counted = Counter((response.status, body["error"] if response.status != 402 else "") for response, body in answers)
    assert set(counted) <= {(402, ""), (429, "rate_limited")}, counted
    assert min(counted[402, ""], counted[429, "rate_limited"]) > 0, counted
    for response, body in answers:
        if response.status == 429:
            assert body["retriable"] is True
            assert int(response.headers["Retry-After"]) > 0
            assert "Too many trades" in body["message"], body


async def test_one_caller_leaves_room_for_others(buyer: Buyer, market: str) -> None:
    crowd = [
        asyncio.create_task(buyer.post(bet(market, wallets.DEV[n % 8]), ip="203.0.113.7")) for n in range(CROWD // 2)
    ]
    others = await asyncio.gather(*(buyer.post(bet(market, wallets.DEV[n]), ip=f"198.51.{n}.9") for n in range(4)))
    assert [response.status for response, _ in others] == [402] * 4
    refused = [body for response, body in await asyncio.gather(*crowd) if response.status != 402]
    assert refused
    assert {body["error"] for body in refused} == {"rate_limited"}

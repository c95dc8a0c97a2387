"""Answers to payers during forks: a bet undone together with its market's listing, and a bet refused by a block that is
not final."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from scripts._stack import wallets
from tests.support.agent_chain import HOUR, AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.genesis import Genesis, chain
from tests.waiting import PATIENCE, until

DEV = wallets.DEV
BEYOND_FINALITY = 80


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    folder = tmp_path_factory.mktemp("undone")
    with chain(local_genesis, "base", folder / "chain.log") as running:
        played = AgentChain.on(running.url, running.deployment)
        with agent_service(played, database_url, local_genesis.deployments, folder) as made:
            made.start("indexer", "relayer", "api")
            yield made


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        yield Buyer(session, service)


async def answered(
    buyer: Buyer, body: dict[str, Any], paid: dict[str, str], status: int
) -> tuple[dict[str, Any], set[int]]:
    others: set[int] = set()
    said: dict[str, Any] = {}

    async def is_so() -> bool:
        nonlocal said
        response, said = await buyer.post(body, headers=paid)
        if response.status != status:
            others.add(response.status)
        return bool(response.status == status)

    await until(is_so, lambda: f"{status}, not {said}", pause=2)
    return said, others


async def ready(
    buyer: Buyer, service: AgentService, market: str, payer: wallets.Wallet
) -> tuple[dict[str, Any], dict[str, str]]:
    await buyer.shows(market)
    body = bet(market, payer)
    offer = (await buyer.challenged(body))["accepts"][0]
    return body, header(sign(offer, payer, now=max(service.chain.now, int(time.time()))))


async def not_shown(buyer: Buyer, market: str) -> None:
    async def is_gone() -> bool:
        return (await buyer.get(f"/markets/{market}"))[0].status == 404

    await until(is_gone, "the listing to be undone", pause=0.1)


@pytest.mark.thorough
async def test_a_bet_undone_with_its_market_ends_without_a_charge(buyer: Buyer, service: AgentService) -> None:
    played, payer = service.chain, DEV[3]
    began, had = played.block, service.chain.balance(payer.address)
    market = played.list("undone")
    body, paid = await ready(buyer, service, market, payer)
    response, taken = await buyer.post(body, headers=paid)
    assert response.status == 200, taken

    played.ask("anvil_rollback", played.block - began)
    played.mine(4)
    await not_shown(buyer, market)

    # Another fork may bring it back: the answer says neither that it is over nor that there never was such a market.
    response, said = await buyer.post(body, headers=paid)
    assert (response.status, said["retriable"], said["error"]) == (429, True, "rate_limited"), said
    assert "do not pay for this bet again" in said["hint"]

    # The bet is refused in the new blocks, and these become final.
    deadline = time.monotonic() + PATIENCE
    while not _refused(service):
        played.mine()
        assert time.monotonic() < deadline, "the bet was not refused"
        await asyncio.sleep(0.2)
    played.mine(BEYOND_FINALITY)
    said, before = await answered(buyer, body, paid, 404)
    assert before <= {429}
    assert (said["error"], said["retriable"]) == ("market_not_found", False), said
    assert service.chain.balance(payer.address) == had
    response, unpaid = await buyer.post(body)
    assert (response.status, unpaid["error"]) == (404, "market_not_found"), unpaid  # no payment is asked for
    _, held = await buyer.get("/positions", wallet=payer.address)
    assert held["positions"] == []
    response, _ = await buyer.get(f"/proof/{taken['receipt']['tradeId']}")
    assert response.status == 404

    # Of a key that nothing was paid under the answer is what it was.
    response, said = await buyer.post(bet(market, payer))
    assert (response.status, said["error"]) == (404, "market_not_found")
    response, said = await buyer.post({**body, "simulate": True})
    assert (response.status, said["error"]) == (404, "market_not_found")


async def test_a_payment_for_a_market_that_a_fork_undid_is_not_sent(buyer: Buyer, service: AgentService) -> None:
    """The payer saw the market and signed; the bet was not accepted, so the answer is final."""
    played, payer = service.chain, DEV[5]
    began, had = played.block, service.chain.balance(payer.address)
    times = {"closes_at": played.now + 1_200, "ends_at": played.now + 3 * HOUR}
    market = played.list("gone", **times)
    body, paid = await ready(buyer, service, market, payer)
    played.ask("anvil_rollback", played.block - began)
    played.mine(4)
    await not_shown(buyer, market)

    response, said = await buyer.post(body, headers=paid)
    assert (response.status, said["error"], said["retriable"]) == (404, "market_not_found", False), said
    assert "final" not in said
    assert "payment was not sent" in said["hint"], said

    assert played.list("gone", **times) == market
    await buyer.shows(market)
    response, unpaid = await buyer.post(body)  # it is back, and nothing stands under the key
    assert response.status == 402, unpaid
    assert service.chain.balance(payer.address) == had


async def test_a_payment_sent_for_one_bet_is_not_called_unsent_for_another(buyer: Buyer, service: AgentService) -> None:
    """It is sent, and a payer who was answered otherwise would pay again."""
    body, paid = await ready(buyer, service, service.chain.list("there"), DEV[6])
    response, taken = await buyer.post(body, headers=paid)
    assert response.status == 200, taken
    for elsewhere in ({**body, "marketId": "nowhere"}, {**body, "marketId": "nowhere", "idemKey": "another key"}):
        response, said = await buyer.post(elsewhere, headers=paid)
        assert (response.status, said["error"]) == (422, "payment_invalid"), said
        assert "Send that trade's request again" in said["hint"], said


@pytest.mark.thorough
async def test_a_refusal_by_a_block_that_may_be_undone_is_not_called_final(buyer: Buyer, service: AgentService) -> None:
    """The bet is signed: if the chain replaces the block with one before the deadline, it would be made."""
    played, payer = service.chain, DEV[4]
    closes_at = played.now + 600
    market = played.list("closing", closes_at=closes_at)
    body, paid = await ready(buyer, service, market, payer)
    deadline = time.monotonic() + PATIENCE
    with played.held():
        paying = asyncio.create_task(buyer.post(body, headers=paid))
        await asyncio.to_thread(played.until_sent)
        played.ask("evm_setNextBlockTimestamp", hex(closes_at + 1))
        played.ask("evm_mine")
        response, said = await paying
    assert (response.status, said["error"], said["final"]) == (409, "market_closed", False), said
    assert "it may still be taken" in said["message"], said
    assert said["retriable"] is True, said  # a payer who picked another market would make two bets
    assert "another market" not in said["hint"], said
    response, said = await buyer.post(body, headers=paid)
    while response.status == 429:  # what the chain says of the payment could not be read in time
        assert said["final"] is False, said
        assert time.monotonic() < deadline, said
        response, said = await buyer.post(body, headers=paid)
    assert (response.status, said["error"], said["final"]) == (409, "market_closed", False), said

    played.mine(BEYOND_FINALITY)
    while "final" in said:
        assert time.monotonic() < deadline, said
        await asyncio.sleep(0.1)
        response, said = await buyer.post(body, headers=paid)
    assert (response.status, said["error"], said["retriable"]) == (409, "market_closed", False), said


def _refused(service: AgentService) -> bool:
    return "UnknownMarket" in service.log("relayer")

"""A fork undoes the block of a bet that was answered as booked: what the same body is answered then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import aiohttp
import pytest

from scripts._stack import wallets
from tests.support.genesis import Genesis, chain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service
from tests.waiting import PATIENCE, until

BETTOR = wallets.DEV[3]
STRANGER = wallets.DEV[5]


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    """Run a service on a separate chain whose blocks the tests undo."""
    folder = tmp_path_factory.mktemp("undone")
    with chain(local_genesis, "stock", folder / "chain.log") as running:
        played = StockChain.on(running.url, running.deployment)
        with stock_service(played, database_url, local_genesis.deployments, folder) as made:
            played.push(FLAT_PRICE)
            made.start("indexer", "relayer", "api")
            yield made


@pytest.mark.thorough
async def test_a_confirmed_bet_whose_block_is_undone_is_pending_again(
    service: StockService,
) -> None:
    played = service.chain
    market = played.open_market(seed=USDG)
    body = played.signed(BETTOR, played.bet(BETTOR, market))
    async with aiohttp.ClientSession() as session:
        door = Door(session, service.url)
        await door.until(f"/api/markets/{market}", lambda _: True)
        before = played.block
        response, said = await door.post("/api/relay/enter", body)
        assert (response.status, said["receipt"]) == (200, "confirmed"), said

        with played.held():
            played.ask("anvil_rollback", played.block - before)
            played.mine(4)
            deadline = time.monotonic() + PATIENCE
            await until(lambda: "relayer.dropped" in service.log("relayer"), "the relayer to see the fork")
            response, said = await door.post("/api/relay/enter", body)
            assert (response.status, said["receipt"]) == (200, "pending"), said
        while said["receipt"] != "confirmed":
            assert time.monotonic() < deadline, said
            response, said = await door.post("/api/relay/enter", body)
            await asyncio.sleep(1)
        assert response.status in (200, 409), said  # 409: its bettor has had the answer
        owners = [
            played.read(played.contracts.settler.call("position", each))["owner"] for each in played.positions(market)
        ]
        assert owners.count(BETTOR.address.lower()) == 1


@pytest.mark.thorough
async def test_a_strangers_bet_that_a_fork_undid_is_sent_again(
    service: StockService,
) -> None:
    played = service.chain
    market = played.open_market(seed=USDG)
    bet = played.bet(BETTOR, market)
    body = played.signed(BETTOR, bet)
    async with aiohttp.ClientSession() as session:
        door = Door(session, service.url)
        await door.until(f"/api/markets/{market}", lambda _: True)
        before, forks = played.block, service.log("indexer").count("index.reorg")
        call = bet.call(played.contracts.settler, bytes.fromhex(body["signature"][2:]))
        brought = played.send(call, STRANGER.address)["transactionHash"]
        response, said = await door.post("/api/relay/enter", body)
        assert (response.status, said["receipt"], said["txHash"]) == (200, "confirmed", brought), said
        response, said = await door.post("/api/relay/enter", body)
        assert (response.status, said["receipt"], said["txHash"]) == (200, "confirmed", brought), said

        with played.held():
            played.ask("anvil_rollback", played.block - before)
            played.ask("anvil_dropAllTransactions")
            played.mine(4)
            deadline = time.monotonic() + PATIENCE
            await until(lambda: service.log("indexer").count("index.reorg") != forks, "the indexer to see the fork")
            while True:  # it says so before the tables follow
                response, said = await door.post("/api/relay/enter", body)
                if said.get("txHash") != brought:
                    break
                assert time.monotonic() < deadline, said
                await asyncio.sleep(0.5)
            assert said["receipt"] == "pending", said
        while said["receipt"] != "confirmed":
            assert time.monotonic() < deadline, said
            await asyncio.sleep(1)
            response, said = await door.post("/api/relay/enter", body)
        assert said["txHash"] != brought
        owners = [
            played.read(played.contracts.settler.call("position", each))["owner"] for each in played.positions(market)
        ]
        assert owners.count(BETTOR.address.lower()) == 1

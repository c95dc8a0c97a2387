"""With `DATABASE_READ_URL` naming a hot standby: reads come from it, and money is never decided by what it lacks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from api.followed_index import MAX_LAG_SECONDS
from core.db.engine import conninfo
from core.db.migrate import migrate
from scripts._stack import wallets
from tests.support.genesis import Genesis, RunningChain
from tests.support.read_replica import Pair, replicated
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service

BETTOR, SIGNER = wallets.DEV[1], wallets.DEV[2]


@dataclass(frozen=True)
class Replicated:
    service: StockService
    pair: Pair
    url: str


@pytest.fixture
def replica(local_genesis: Genesis, stock_chain: RunningChain, tmp_path: Path) -> Iterator[Replicated]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    with replicated(tmp_path) as pair:
        with psycopg.connect(conninfo(pair.primary_url("postgres")), autocommit=True) as connection:
            connection.execute("CREATE DATABASE vpm")
        url = pair.primary_url("vpm")
        migrate(url)
        env = {"DATABASE_READ_URL": pair.standby_url("vpm")}
        with stock_service(chain, url, local_genesis.deployments, tmp_path, **env) as service:
            chain.push(FLAT_PRICE)
            chain.open_market(strike_in=86_400, lasts=86_400)
            chain.mine()
            service.start("indexer", "relayer", "api")
            yield Replicated(service, pair, url)


@pytest.mark.thorough
async def test_reads_follow_a_standby_and_money_does_not_wait_for_it(replica: Replicated) -> None:
    chain, pair = replica.service.chain, replica.pair

    def pool(body: dict[str, Any]) -> int:
        (market,) = body["markets"]
        return int(market["pool"]["up"])

    async with aiohttp.ClientSession() as session:
        door = Door(session, replica.service.url)
        seeded = pool(await door.until("/api/markets", lambda body: len(body["markets"]) == 1))
        # What happens on the chain is shown as soon as the standby has it.
        chain.enter(BETTOR, 1, 0, 5 * USDG)
        began = time.monotonic()
        chain.mine()
        await door.until("/api/markets", lambda body: pool(body) == seeded + 5 * USDG)
        assert time.monotonic() - began < MAX_LAG_SECONDS  # the bound of its reading again and again
        # A standby that is held back shows the past, and shows all of it once it goes on.
        pair.hold_back()
        chain.enter(BETTOR, 1, 0, 7 * USDG)
        chain.mine()
        await asyncio.sleep(2)
        _, body = await door.get("/api/markets")
        assert pool(body) == seeded + 5 * USDG
        # A signed bet is still taken and answered, and the same body again is known to be that bet.
        signed = chain.signed(SIGNER, chain.bet(SIGNER, 1, amount=5 * USDG))
        first, answer = await door.post("/api/relay/enter", signed)
        again, same = await door.post("/api/relay/enter", signed)
        assert (first.status, answer["receipt"], again.status) == (200, "confirmed", 409), (answer, same)
        assert (same["txHash"], same["positionId"]) == (answer["txHash"], answer["positionId"])
        chain.mine()
        pair.let_go()
        await door.until("/api/markets", lambda body: pool(body) == seeded + 17 * USDG)
    assert "lost the LISTEN connection" not in replica.service.log("api")

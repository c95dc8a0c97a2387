"""No bet is taken on a price that stands still: a paused oracle, a silent feed, a sequencer that is down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from core.stock.sessions import sessions_around
from scripts._stack import wallets
from tests.support.genesis import Genesis, RunningChain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, StockChain
from tests.support.stock_service import StockService, stock_service

DAY = 86_400
BETTOR = wallets.DEV[1]
UPTIME = "COIN"
"""Its local feed stands for the uptime feed of the chain's sequencer: a round is a state, and 0 is up."""


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    folder = tmp_path_factory.mktemp("stock-halts")
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    deployments = folder / "deployments"
    shutil.copytree(local_genesis.deployments, deployments)
    facts = json.loads((deployments / "stock.json").read_text())
    facts["sequencerFeed"] = chain.feed(UPTIME).proxy
    facts["feeds"] = [feed for feed in facts["feeds"] if feed["ticker"] != UPTIME]
    (deployments / "stock.json").write_text(json.dumps(facts))
    chain.push(0, chain.now - 2 * DAY, ticker=UPTIME)
    with stock_service(chain, database_url, deployments, folder) as service:
        service.start("indexer", "api")
        yield service


@pytest.fixture
def chain(service: StockService) -> StockChain:
    return service.chain


async def halted(door: Door, chain: StockChain, market_id: int, why: str) -> None:
    """The market takes no bets, and each door says why: its body, its page, what would be signed, and the relay."""

    def says_so(body: Any) -> bool:
        return why in (body["market"]["betsHalted"] or "")

    body = await door.until(f"/api/markets/{market_id}", says_so)
    assert body["market"]["acceptingBets"] is False
    async with door.session.get(f"{door.url}/m/{market_id}") as response:
        assert why in (await response.text()).replace("&#39;", "'")
    query = {"marketId": str(market_id), "outcome": "0", "amount": "5000000"}
    async with door.session.get(f"{door.url}/api/relay/typed-data", params=query) as response:
        unsigned = await response.json()
        assert (response.status, unsigned["error"]) == (409, "market_closed")
    signed = chain.signed(BETTOR, chain.bet(BETTOR, market_id))
    async with door.session.post(f"{door.url}/api/relay/enter", json=signed) as response:
        refused = await response.json()
    assert (response.status, refused["error"]) == (409, "market_closed"), refused
    assert why in refused["message"]


async def takes_bets(door: Door, market_id: int) -> None:
    body = await door.until(f"/api/markets/{market_id}", lambda body: body["market"]["acceptingBets"])
    assert body["market"]["betsHalted"] is None


async def test_bets_rest_while_the_oracle_is_paused(door: Door, chain: StockChain) -> None:
    chain.push(FLAT_PRICE)
    market_id = chain.open_market()
    await takes_bets(door, market_id)
    chain.pause_oracle(True)
    await halted(door, chain, market_id, "The stock's oracle is paused.")
    chain.pause_oracle(False)
    await takes_bets(door, market_id)


async def test_bets_rest_while_the_sequencer_is_down_and_an_hour_after(door: Door, chain: StockChain) -> None:
    chain.push(FLAT_PRICE)
    market_id = chain.open_market(lasts=DAY)
    chain.push(1, ticker=UPTIME)
    await halted(door, chain, market_id, "The chain's sequencer is down")
    chain.push(0, ticker=UPTIME)
    chain.mine()
    await halted(door, chain, market_id, "came back less than an hour ago")
    chain.warp_to(chain.now + 3601)
    chain.push(FLAT_PRICE)
    await takes_bets(door, market_id)


async def test_bets_rest_while_the_feed_stands_still_and_the_exchange_is_open(door: Door, chain: StockChain) -> None:
    chain.push(FLAT_PRICE)
    market_id = chain.open_market(lasts=7 * DAY)
    session = next(each for each in sessions_around(chain.now) if each.opens > chain.now)
    chain.warp_to(session.opens + 3 * 3600)
    chain.mine()
    await takes_bets(door, market_id)  # a feed rests overnight; only the exchange's hours count
    chain.warp_to(session.opens + 3 * 3600 + 60)
    chain.mine()
    await halted(door, chain, market_id, "The price feed has not been updated for 181 minutes")
    chain.push(FLAT_PRICE)
    await takes_bets(door, market_id)

"""From stakes to payouts with the whole service running on its schedule alone: pools, fees and payouts to the unit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api import caching
from api.agent.facts import Links
from api.agent.index import AgentIndex, AgentParts, Trading
from api.agent.platform import Platform
from core.db.engine import make_engine, make_pool
from core.db.switches import SwitchWatcher
from core.feeds.words import feed_words
from core.money import USD, loads
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, chain
from tests.waiting import PATIENCE

DEV = wallets.DEV
CAP = 100_000_000 * 10**8
FEE_BPS = 237
STAKED = {  # by bettor: side and units; amounts that divide into nothing evenly
    0: ("yes", 7_123_457),
    1: ("yes", 12_345_678),
    2: ("no", 33_333_333),
    3: ("no", 1_000_001),
}
LANES = {each.address.lower() for each in wallets.RELAY_LANES[:2]}


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    folder: Path = tmp_path_factory.mktemp("agent")
    env = {
        "VPM_KEEPER_LIST_SERIES": "0",
        "VPM_KEEPER_LOCAL_PRICES": "0",
        "VPM_KEEPER_LOCAL_DRILLS": "0",
        "VPM_KEEPER_CANARY": "0",
        "VPM_KEEPER_SETTLE_EVERY_SECONDS": "1",
        "VPM_KEEPER_SWEEP_FROM_UNITS": str(10**12),  # the test sweeps when it has counted
    }
    with chain(local_genesis, "base", folder / "anvil.log", block_seconds=1) as base:
        played = AgentChain.on(base.url, base.deployment)
        played.set_bounds(fee_bps=FEE_BPS)
        played.list("reached", closes_at=played.now + 600)
        played.list("forgotten", closes_at=played.now + 20_000, target=2 * CAP)
        played.list("others", closes_at=played.now + 80_000, target=4 * CAP)
        played.list("late", closes_at=played.now + 100_000, target=3 * CAP)
        played.list("alone", closes_at=played.now + 120_000, target=5 * CAP)
        with agent_service(played, database_url, local_genesis.deployments, folder, **env) as running:
            running.start("indexer", "relayer", "api", "keeper")
            yield running


async def exact(buyer: Buyer, path: str) -> Any:
    async with buyer.session.get(buyer.service.api + buyer.named(path)) as response:
        return loads(await response.read())


async def staked(buyer: Buyer, market: str, number: int) -> dict[str, Any]:
    side, units = STAKED[number]
    body = bet(market, DEV[number], side, units / USD)
    if units > 10 * USD:
        _, quoted = await buyer.get("/quote", marketId=market, side=side, sizeUsd=units / USD)
        quote = quoted["quote"]
        body |= {"quoteId": quote["quoteId"], "minSharesOut": quote["suggestedMinSharesOut"]}
    response, paid = await buyer.buy(body, DEV[number])
    assert response.status == 200, paid
    return dict(paid["receipt"])


async def resolved(buyer: Buyer, market: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            result = (await exact(buyer, f"/result?marketId={market}"))["result"]
            if result["status"] == "resolved":
                return dict(result)
            await asyncio.sleep(0.1)


async def paid_out(service: AgentService) -> None:
    liabilities = service.chain.contracts.settlement.call("liabilities")
    async with asyncio.timeout(PATIENCE):
        while service.chain.read(liabilities)[1]:
            await asyncio.sleep(0.1)


async def test_winners_are_paid_without_a_call_and_everything_adds_up(buyer: Buyer, service: AgentService) -> None:
    played = service.chain
    settlement, token = played.contracts.settlement, played.contracts.token
    before = {number: service.chain.balance(DEV[number].address) for number in STAKED}
    held = service.chain.balance(settlement.address)
    receipts = [await staked(buyer, "reached", number) for number in STAKED]
    total = sum(units for _, units in STAKED.values())
    fees = sum(units * FEE_BPS // 10_000 for _, units in STAKED.values())
    pool = total - fees
    assert service.chain.balance(settlement.address) - held == total

    async def position(number: int) -> dict[str, Any]:
        (found,) = (await exact(buyer, f"/positions?wallet={DEV[number].address}"))["positions"]
        return dict(found)

    projected = {number: (await position(number))["projectedPayoutUsd"] for number in STAKED}
    played.settle("reached", CAP, resolve=False)  # from here on the test only watches
    result = await resolved(buyer, "reached")
    await paid_out(service)

    shares = {at: int(each["position"]["shares"] * USD + 0.5) for at, each in enumerate(receipts)}
    issued = shares[0] + shares[1]
    payouts = {at: shares[at] * pool // issued for at in (0, 1)}
    got = {number: service.chain.balance(DEV[number].address) for number in STAKED}
    for number, (_, units) in STAKED.items():
        assert got[number] == before[number] - units + payouts.get(number, 0)
    dust = pool - sum(payouts.values())
    assert 0 <= dust < 2
    assert service.chain.balance(settlement.address) - held == fees + dust

    # The door says the same.
    assert (result["resolvedOutcome"], result["refunded"]) == ("yes", False)
    assert int(result["poolUsd"] * USD) == pool
    assert int(result["winningShares"] * USD) == issued
    assert Decimal(result["payoutPerShareUsd"]) == Decimal(pool * 10**6 // issued) / 10**6
    for number, (side, units) in STAKED.items():
        ended = await position(number)
        assert ended["status"] == ("resolved-won" if side == "yes" else "resolved-lost")
        assert int(ended["pnlUsd"] * USD) == payouts.get(number, 0) - units
        if side == "yes":
            assert ended["payoutUsd"] == projected[number]

    # Paid by our lanes, out of the wallet that took the stakes.
    for number, amount in payouts.items():
        (sent,) = _transfers(service, settlement.address, DEV[number].address)
        assert int(sent["data"], 16) == amount
        payer = played.ask("eth_getTransactionByHash", sent["transactionHash"])
        assert payer["from"].lower() in LANES
    # Fees and dust are the treasury's, and then the contract holds exactly what it still owes.
    treasury = played.read(settlement.call("treasury"))
    had = service.chain.balance(treasury)
    played.send(settlement.call("sweepFees"), DEV[7].address)
    assert service.chain.balance(treasury) - had == fees + dust
    assert service.chain.balance(settlement.address) == sum(played.read(settlement.call("liabilities")))
    assert token.address == played.contracts.token_facts.address


def _transfers(service: AgentService, sender: str, to: str) -> list[dict[str, Any]]:
    topics = [
        "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        "0x" + sender[2:].lower().rjust(64, "0"),
        "0x" + to[2:].lower().rjust(64, "0"),
    ]
    token = service.chain.contracts.token.address
    given = {"fromBlock": "0x0", "toBlock": "latest", "address": token, "topics": topics}
    return list(service.chain.ask("eth_getLogs", given))


async def test_a_market_without_winners_gives_every_stake_back_whole(buyer: Buyer, service: AgentService) -> None:
    before = service.chain.balance(DEV[4].address)
    body = bet("forgotten", DEV[4], "no", 9.999999)
    response, paid = await buyer.buy(body, DEV[4])
    assert response.status == 200, paid
    service.chain.settle("forgotten", 2 * CAP, resolve=False)
    result = await resolved(buyer, "forgotten")
    await paid_out(service)
    assert (result["resolvedOutcome"], result["refunded"], result["payoutPerShareUsd"]) == ("yes", True, None)
    async with asyncio.timeout(PATIENCE):
        while service.chain.balance(DEV[4].address) != before:
            await asyncio.sleep(0.1)
    (position,) = (await exact(buyer, f"/positions?wallet={DEV[4].address}"))["positions"]
    assert (position["status"], position["pnlUsd"]) == ("resolved-refunded", 0)


async def test_stats_are_counted_once_a_minute(
    buyer: Buyer, service: AgentService, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper pays two winners, a stranger a third at once and a fourth too late. A bettor without opponents is
    refunded, which is no win."""
    played = service.chain
    _, first = await buyer.get("/stats")
    for market, number, side in (("others", 4, "no"), ("others", 5, "yes"), ("late", 4, "no"), ("late", 5, "yes")):
        response, _ = await buyer.buy(bet(market, DEV[number], side, 5), DEV[number])
        assert response.status == 200
    response, _ = await buyer.buy(bet("alone", DEV[5], "yes", 5), DEV[5])
    assert response.status == 200
    service.stop("keeper")
    for market, target, wait in (("others", 4, 0), ("late", 3, 900), ("alone", 5, 0)):
        played.settle(market, target * CAP)
        await resolved(buyer, market)
        played.ask("evm_increaseTime", wait)
        played.ask("evm_mine")
        ids = played.read(played.contracts.settlement.call("stakesOf", played.key(market), 0, 10))
        played.send(played.contracts.settlement.call("pay", played.key(market), ids), DEV[7].address)
    await paid_out(service)
    _, second = await buyer.get("/stats")
    assert second["stats"] == first["stats"]  # through the door: counted less than a minute ago

    engine, clock = make_engine(database_url), [1000.0]
    monkeypatch.setattr(caching, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    links = Links("http://here", None, played.contracts.settlement.address)
    async with make_pool(database_url, size=1, autocommit=True) as pool:
        index = AgentIndex(database_url, engine, 8453, feed_words(played.deployment.agent_feeds))
        async with asyncio.timeout(PATIENCE):
            while index.snapshot is None or index.snapshot.markets[played.key("alone")].ending is None:
                await index.refresh()
        switch = Trading(False, SwitchWatcher(database_url, pool), deployed=True, blocks_are_regular=False)
        context, nothing = cast(Any, SimpleNamespace(engine=engine, pool=pool)), cast(Any, None)
        platform = Platform(AgentParts(context, 8453, None, None, links, index, switch, nothing), None)

        async def stats() -> Any:
            return loads((await platform._stats.get()).body)["stats"]

        async with asyncio.timeout(PATIENCE):  # until the last payment is indexed
            while (counted := await stats())["autoPayoutRate"] is None or counted["totalBets"] != 10:
                clock[0] += 60
                await asyncio.sleep(0.1)
        total = sum(units for _, units in STAKED.values()) + 9_999_999 + 5 * 5 * USD
        assert int(counted["totalVolumeUsd"] * USD) == total
        assert counted["markets"] == {"open": 0, "resolved": 5}
        assert counted["medianPayoutDelaySec"] < 60
        assert len(counted["proofSamples"]) == 5
        await asyncio.sleep(1)
        clock[0] += 59.9
        assert (await stats())["asOf"] == counted["asOf"]
        clock[0] += 0.2
        again = await stats()
        assert again["asOf"] > counted["asOf"]
        assert again["autoPayoutRate"] == Decimal("0.5")  # two of four
    await engine.dispose()

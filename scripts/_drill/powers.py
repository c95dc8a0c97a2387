"""Drills on the powers of guardians and of the Safe."""

from __future__ import annotations

import secrets

from core.contracts.statuses import AgentMarketStatus, StakeStatus, VoidReason
from core.hexadecimal import bytes_of
from scripts._drill.drill import Drill, DrillHeld, bet_taken, require
from scripts._drill.fleet import Fleet
from scripts._drill.load import Load, LoadReport
from scripts._drill.witness import times_there
from scripts._stack import wallets
from scripts._stack.chains import CHAIN_IDS
from scripts._stack.wallets import ETH

OPEN, REFUNDED, CONDEMNED = int(AgentMarketStatus.OPEN), int(StakeStatus.REFUNDED), int(VoidReason.CONDEMNED)
_ON_FEED = (
    "SELECT s.stake_id FROM agent_stake s JOIN agent_market m USING (market_id) "  # noqa: S608
    f"WHERE m.feed = %s AND m.void_reason = {CONDEMNED}"
)
_STAKES = "SELECT count(*) FROM agent_stake s JOIN agent_market m USING (market_id) WHERE m.feed = %s"


async def pause_bets(fleet: Fleet, load: Load) -> DrillHeld:
    """A guardian stops both sides with one hot key; only the Safe lets them go on."""
    for chain in CHAIN_IDS:
        await _pauser(fleet, chain, "pause", wallets.GUARDIAN.address)
    try:
        require(await _paused(fleet) == [True, True], "the contracts do not say that they are paused")
        refused = await fleet.until(lambda: _door_is_paused(load), "agent bets refused", 60, pause=0.5)
        resumed = True
        try:
            await _pauser(fleet, "base", "resume", wallets.GUARDIAN.address)
        except Exception:  # the node refuses to send what reverts, in words of its own
            resumed = False
        require(not resumed, "a guardian resumed")
        require(await _paused(fleet) == [True, True], "the guardian's word changed the contracts")
    finally:
        for chain in CHAIN_IDS:
            safe = fleet.deployment(chain).safe
            assert safe is not None
            await _pauser(fleet, chain, "resume", safe.address)
    took = await bet_taken(fleet, load, 60)
    require(await _paused(fleet) == [False, False], "the contracts still say that they are paused")
    earlier = len(load.promises)

    async def is_staked() -> bool:
        made = [one for one in load.promises[earlier:] if one.surface == "agent" and one.report is LoadReport.TAKEN]
        return any([await times_there(fleet, one) == 1 for one in made])

    agent = await fleet.until(is_staked, "an agent bet taken and on the chain", 90)
    return DrillHeld(
        f"the door refused agent bets {refused:.1f} s after the guardian's pause, and a guardian could not resume; a "
        f"stock bet was confirmed {took:.1f} s after the Safe did, an agent bet {agent:.1f} s later",
        took + agent,
    )


async def condemn_feed(fleet: Fleet, load: Load) -> DrillHeld:
    """The publisher of one feed lied: the Safe condemns it while bets on it are open."""
    (source,), others = fleet.deployment("base").published_feeds, fleet.deployment("base").pool_feeds
    feed = bytes_of(source.address)
    await fleet.until(lambda: _count(fleet, feed, f" AND m.status = {OPEN}") > 0, f"a bet on {source.key}", 180)
    lister, safe = fleet.contract("base", "AgentLister"), fleet.deployment("base").safe
    assert safe is not None
    await fleet.rpc("base", "anvil_setBalance", safe.address, hex(ETH))
    await fleet.send("base", lister.call("condemn", source.address), sender=safe.address)
    left = f" AND (m.status = {OPEN} OR m.void_reason = {CONDEMNED}) AND s.status <> {REFUNDED}"
    took = await fleet.until(lambda: _count(fleet, feed, left) == 0, f"every stake on {source.key} given back", 180)
    short = _count(fleet, feed, f" AND m.void_reason = {CONDEMNED} AND s.paid_amount <> s.amount")
    require(short == 0, f"{short} stakes were not given back whole")
    stakes = [number for (number,) in await fleet.ask_database(_ON_FEED, feed)]
    require(bool(stakes), f"there was no stake on {source.key}: nothing had to go back")
    wallet = fleet.contract("base", "SettlementWallet")
    views = [await fleet.read("base", wallet.call("stake", int(number))) for number in stakes]
    kept = [view for view in views if (view["status"], view["payable_"]) != (StakeStatus.REFUNDED, 0)]
    require(
        not kept, f"{len(kept)} of {len(stakes)} stakes on {source.key} are not refunded by the contract's own view"
    )
    back = _count(fleet, feed, f" AND m.void_reason = {CONDEMNED}")
    for other in others:
        going_on = bytes_of(other.address)
        still = fleet.rows(f"SELECT count(*) FROM agent_market WHERE feed = %s AND status = {OPEN}", going_on)[0][0]  # noqa: S608
        require(still > 0, f"markets on {other.key} ended too")
    return DrillHeld(
        f"{back} stakes on {source.key} were given back whole within {took:.1f} s; markets on other feeds went on", took
    )


async def _paused(fleet: Fleet) -> list[bool]:
    """What the two contracts say of themselves."""
    agent, stock = fleet.contract("base", "SettlementWallet"), fleet.contract("stock", "VestedMarkets")
    return [await fleet.read("base", agent.call("paused")), await fleet.read("stock", stock.call("entriesPaused"))]


async def _pauser(fleet: Fleet, chain: str, call: str, sender: str) -> None:
    await fleet.rpc(chain, "anvil_setBalance", sender, hex(ETH))
    await fleet.send(chain, fleet.contract(chain, "Pauser").call(call), sender=sender)


async def _door_is_paused(load: Load) -> bool:
    """Whether a bet on the newest market is refused for that."""
    status, listed = await load.call("GET", "/api/agent/v1/markets?limit=1")
    if status != 200 or not listed["markets"]:
        return False
    market = listed["markets"][0]
    body = {
        "marketId": market["id"],
        "side": market["outcomes"][0]["key"],
        "sizeUsd": 1,
        "idemKey": f"drill-{secrets.token_hex(8)}",
        "walletAddress": load.bettors[0].address,
    }
    _, answer = await load.call("POST", "/api/agent/v1/trade", body)
    return isinstance(answer, dict) and answer.get("error") == "platform_paused"


def _count(fleet: Fleet, feed: bytes, condition: str) -> int:
    """Stakes and refunds on a feed."""
    return int(fleet.rows(f"{_STAKES}{condition}", feed)[0][0])


DRILLS = (
    Drill(
        "pause-bets",
        "a guardian stops new bets on both chains",
        "bets are refused with words, the guardian cannot resume; they are taken within 90 s of the Safe's word",
        "both contracts said paused and then no longer, and a new bet of each kind is on its chain",
        "pause-and-resume",
        pause_bets,
    ),
    Drill(
        "condemn-feed",
        "the Safe condemns a feed whose publisher lied, with bets on it open",
        "every stake on it goes back whole within 180 s; other feeds go on",
        "the contract's own views have each stake on the feed as refunded, with nothing left to pay",
        "a-publisher-lies",
        condemn_feed,
    ),
)

"""A drill on the pools that decide agent markets."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from web3._utils.events import get_event_data

from core.agent.bet import idem_hash, market_key
from core.agent.book import MARGIN, NO, YES
from core.agent.document import Metadata, Specification, rendered
from core.chain import Abi, Contract
from core.chain.contract import CODEC
from core.contracts.abi import abi
from core.contracts.feeds import PoolFeed
from core.contracts.statuses import MarketKind, Quality, StakeStatus
from core.feeds.grid import grid_time
from core.hexadecimal import bytes_of
from core.money import USD
from scripts._drill.drill import Drill, DrillHeld, require
from scripts._drill.fleet import Fleet
from scripts._drill.load import Load, LoadReport, Promise
from scripts._stack import wallets
from scripts._stack.agent_pools import AgentPools, trader
from scripts._stack.chain_setup import LocalNode
from scripts._stack.uniswap import PoolKey, artifact

ALARM: Final = 0.5
"""VpmPoolThin: a share of the liquidity that the feed was set up with."""
BETS_SECONDS = 60
RUN_SECONDS = 90
"""The keeper's job that records readings and looks at the pools runs every minute."""
WEIGHTS = (500 * USD, 500 * USD)
TARGET = 10**8  # a dollar, which every token here is above: without the drill, YES wins

_MANAGER: Final[Abi] = artifact("NonfungiblePositionManager").abi


class LiquidityPosition(NamedTuple):
    """Liquidity between two ticks of a pool, and what it was worth when it was taken out."""

    lower: int
    upper: int
    amounts: tuple[int, int]


class Owner:
    """Who owns all liquidity of the local pools."""

    def __init__(self, fleet: Fleet, key: str) -> None:
        self.pools = AgentPools.load(fleet.genesis.pools)
        self.pool = self.pools.of(key)
        self._who = trader(LocalNode(fleet.urls["base"]))
        self._manager = Contract(self.pools.exchange.positions, _MANAGER)

    def take_out(self) -> list[LiquidityPosition]:
        """All of it from this pool."""
        return [self._taken(number) for number in self._numbers()]

    def put_back(self, taken: list[LiquidityPosition]) -> None:
        for lower, upper, amounts in taken:
            self.pools.exchange.provide(self._who, self.pool.place, lower, upper, *amounts)

    def _numbers(self) -> list[int]:
        count = self._who.read(self._manager.call("balanceOf", self._who.address))
        numbers = [
            self._who.read(self._manager.call("tokenOfOwnerByIndex", self._who.address, at)) for at in range(count)
        ]
        return [number for number in numbers if self._place(number) == self.pool.place and self._position(number)[7]]

    def _position(self, number: int) -> Any:
        return self._who.read(self._manager.call("positions", number))

    def _place(self, number: int) -> PoolKey:
        return PoolKey.of(*self._position(number)[2:5])

    def _taken(self, number: int) -> LiquidityPosition:
        lower, upper, liquidity = self._position(number)[5:8]
        self.pools.exchange.withdraw(self._who, number, liquidity)
        receipt = self.pools.exchange.collect(self._who, number)
        given = get_event_data(CODEC, _MANAGER.events["Collect"], receipt["logs"][-1])["args"]
        return LiquidityPosition(lower, upper, (given["amount0"], given["amount1"]))


async def thin_pool(fleet: Fleet, load: Load) -> DrillHeld:
    """The liquidity of a pool leaves while bets on the pool's feed are open."""
    *others, feed = fleet.deployment("base").pool_feeds
    owner = await asyncio.to_thread(Owner, fleet, feed.key)
    market, ends_at = await _listed(fleet, feed)
    await fleet.until(lambda: _shown(load, market), f"{market} on its page", 30)
    bets = await asyncio.gather(*(_bet(load, market, side) for side in (YES, NO)))
    taken = await asyncio.to_thread(owner.take_out)
    require(bool(taken), f"{owner.pool.name} has no liquidity of the stack's own")
    try:
        noticed = await fleet.until(lambda: _is_deep(fleet, feed, False), "metrics telling of a thin pool", RUN_SECONDS)
        await fleet.until(
            lambda: _is_past(fleet, ends_at), f"the end of {market}", ends_at - await fleet.now("base") + 30
        )
        paid = await fleet.until(
            lambda: _are_back(fleet, bets), f"the stakes on {market} given back", 2 * RUN_SECONDS, pause=0.5
        )
    finally:
        await asyncio.to_thread(owner.put_back, taken)
    require(
        await _quality(fleet, feed, ends_at) is Quality.THIN, f"the reading of {ends_at} is not that of a thin pool"
    )
    for other in others:
        require(await _quality(fleet, other, ends_at) is Quality.GOOD, f"{other.key} had no good reading at {ends_at}")
    since = await fleet.now("base")
    back = await fleet.until(
        lambda: _reads(fleet, feed, since), f"a good reading of {feed.key}", feed.window_seconds + 2 * RUN_SECONDS
    )
    await fleet.until(lambda: _is_deep(fleet, feed, True), "metrics telling of a deep pool", RUN_SECONDS)
    return DrillHeld(
        f"the metrics told of {owner.pool.name} {noticed:.1f} s after its liquidity had left; the deciding reading is "
        f"recorded as thin, both stakes were back {paid:.1f} s after it, and {feed.key} read on {back:.1f} s after the "
        "return",
        paid + back,
    )


async def _listed(fleet: Fleet, feed: PoolFeed) -> tuple[str, int]:
    """A market on the feed whose bets end in a minute: its id and its end."""
    closes_at = await fleet.now("base") + BETS_SECONDS
    ends_at = grid_time(closes_at + MARGIN + feed.memory_seconds, feed.step_seconds) + feed.step_seconds
    source = bytes_of(feed.address)
    spec = Specification(
        kind=MarketKind.THRESHOLD,
        feed=source,
        target=TARGET,
        bounds=(),
        early_resolvable=False,
        published=False,
        max_age=feed.max_age_seconds,
        opens_at=0,
        closes_at=closes_at,
        start_at=0,
        ends_at=ends_at,
        early_from=0,
        settles_after=0,
        voids_after=0,
    )
    market = rendered(spec, feed.key).id
    fields: tuple[object, ...] = (
        int(spec.kind),
        feed.address,
        TARGET,
        [],
        False,
        0,
        closes_at,
        0,
        ends_at,
        list(WEIGHTS),
    )
    lister = fleet.contract("base", "AgentLister")
    call = lister.call("list", market_key(market), fields, Metadata(market).canonical())
    await fleet.send("base", call, sender=wallets.OPENER.address)
    return market, ends_at


async def _shown(load: Load, market: str) -> bool:
    status, _ = await load.call("GET", f"/api/agent/v1/markets/{market}")
    return status == 200


async def _bet(load: Load, market: str, side: int) -> Promise:
    promise = await load.agent(market=market, side="yes" if side == YES else "no")
    require(promise is not None and promise.report is LoadReport.TAKEN, f"no bet could be placed on {market}")
    assert promise is not None
    return promise


async def _is_past(fleet: Fleet, moment: int) -> bool:
    return await fleet.now("base") > moment


async def _is_deep(fleet: Fleet, feed: PoolFeed, deep: bool) -> bool:
    """Whether a keeper says so of the feed's pools."""
    samples = await fleet.samples("keeper", "vpm_pool_depth")
    shares = [value for labels, value in samples if ("feed", feed.key) in labels]
    return bool(shares) and (min(shares) >= ALARM) is deep


async def _are_back(fleet: Fleet, bets: list[Promise]) -> bool:
    """Whether the contract says of each stake that it went back, with nothing left to pay."""
    wallet = fleet.contract("base", "SettlementWallet")
    for bet in bets:
        number = await fleet.read("base", wallet.call("stakeOf", bet.wallet.address, idem_hash(bet.key)))
        view = await fleet.read("base", wallet.call("stake", number))
        if (view["status"], view["amount"], view["payable_"]) != (StakeStatus.REFUNDED, bet.amount, 0):
            return False
    return True


async def _quality(fleet: Fleet, feed: PoolFeed, at: int) -> Quality:
    """Of the reading as the contract has recorded it, or as its pools tell it."""
    contract = Contract(feed.address, abi("PoolFeed"))
    recorded = int(await fleet.read("base", contract.call("qualityOf", at)))
    return Quality(recorded or (await fleet.read("base", contract.call("measure", at)))[0])


async def _reads(fleet: Fleet, feed: PoolFeed, since: int) -> bool:
    """Whether a good reading of after `since` is recorded."""
    newest = await fleet.read("base", Contract(feed.address, abi("PoolFeed")).call("latestRoundData"))
    return int(newest[3]) > since and int(newest[1]) > 0


DRILLS = (
    Drill(
        "thin-pool",
        "the liquidity of a pool leaves while bets on the pool's feed are open",
        "the metrics tell within 90 s; what the pool decides is void and each stake goes back whole within 180 s; "
        "other feeds read on, and this one does again once its pool has been deep for a window",
        "the contract has the deciding reading as thin, each stake as refunded, and a good reading of after the return",
        "a-pool-runs-dry",
        thin_pool,
    ),
)

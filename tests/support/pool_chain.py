"""A pool feed on a local Base: a genuine Uniswap v3 with a history of swaps, and a feed on it that the Safe allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.agent.book import MARGIN
from core.chain import Contract
from core.contracts.abi import abi
from core.contracts.deployments import write_deployment
from core.contracts.feeds import PoolFeed, PoolSource
from core.contracts.statuses import MarketKind
from core.feeds.grid import grid_time
from core.feeds.live import POOL
from core.money import USD
from scripts._deploy.build import creation_code
from scripts._stack import agent_pools, wallets
from scripts._stack.agent_pools import AgentPools, Walk
from scripts._stack.chain_setup import LocalNode
from scripts._stack.uniswap import Actor, PoolKey, artifact
from tests.support.agent_chain import AgentChain

KEY = "VIRTUAL/market_cap"
WINDOW, STEP, MAX_QUIET = 120, 60, 600
MEMORY = WINDOW + STEP
PAST = 1_200
STRANGER = wallets.DEV[7]
_CONFIG = "(string,address,address,uint256,address[],uint128[],uint32,uint32,uint32)"


@dataclass(frozen=True)
class PoolChain:
    """A chain with a pool feed. `agents` is the chain, whose deployment names the feed."""

    agents: AgentChain
    feed: PoolFeed
    pools: AgentPools
    walk: Walk

    @property
    def node(self) -> LocalNode:
        return self.walk.who.node

    @property
    def contract(self) -> Contract:
        return Contract(self.feed.address, abi("PoolFeed"))

    @property
    def now(self) -> int:
        return self.agents.now

    def trade(self, seconds: int, every: int = 30) -> None:
        end = self.now + seconds
        while self.now + every <= end:
            self.agents.warp_to(self.now + every)
            agent_pools.trade_once(self.node, self.walk, self.now)
        if self.now < end:
            self.agents.warp_to(end)

    def record(self, *times: int) -> dict[str, Any]:
        return self.agents.send(self.contract.call("record", list(times)), STRANGER.address)

    def value(self) -> int:
        return int(self.agents.read(self.contract.call("latestRoundData"))[1])

    def reading(self, at: int) -> int:
        return int(self.agents.read(self.contract.call("getRoundData", at // self.feed.step_seconds))[1])

    def list(
        self,
        kind: MarketKind = MarketKind.DIRECTION,
        *,
        stakes: int = 120,
        length: int = 360,
        target: int = 0,
        early: bool = False,
    ) -> tuple[str, Any]:
        """List a market whose stakes end in so many seconds. Return its id and the resolver's terms."""
        closes_at = self.now + stakes
        identity = self.agents.list(
            "", kind=kind, feed=self.feed.key, target=target, closes_at=closes_at, weights=(10 * USD,) * 2, early=early,
            ends_at=closes_at + MARGIN + self.feed.memory_seconds + max(length, 2 * self.feed.memory_seconds),
        )  # fmt: skip
        return identity, self.agents.terms(identity)


def take_out(pools: AgentPools, key: str, who: Actor, percent: int = 100) -> list[tuple[int, ...]]:
    """Withdraw this part of a pool as the owner of all of it. Return the ticks and amounts of each position."""
    manager = Contract(pools.exchange.positions, artifact("NonfungiblePositionManager").abi)
    taken = []
    for at in range(who.read(manager.call("balanceOf", who.address))):
        number = who.read(manager.call("tokenOfOwnerByIndex", who.address, at))
        position = who.read(manager.call("positions", number))
        if PoolKey.for_pair(*position[2:5]) != pools.get(key).place or not position[7]:
            continue
        pools.exchange.withdraw(who, number, position[7] * percent // 100)
        taken.append((*position[5:7], *who.read(manager.call("positions", number))[10:12]))
        pools.exchange.collect(who, number)
    return taken


def put_back(pools: AgentPools, key: str, who: Actor, taken: list[tuple[int, ...]]) -> None:
    for lower, upper, amount0, amount1 in taken:
        pools.exchange.provide(who, pools.get(key).place, lower, upper, amount0, amount1)


def of_the_stack(chain: AgentChain, saved: Path) -> PoolChain:
    """Return the pools and the feed that `./vpm up` starts from. `saved`: the file that describes its pools."""
    node, pools = LocalNode(chain.url), AgentPools.load(saved)
    _mine_each(node)
    feed = next(each for each in chain.deployment.pool_feeds if each.key == KEY)
    played = PoolChain(chain, feed, pools, Walk(agent_pools.trader(node), pools))
    played.trade(2 * feed.window_seconds)  # there was no trade since it was saved
    return played


def _mine_each(node: LocalNode) -> None:
    node.ask("evm_setIntervalMining", 0)
    node.ask("evm_setAutomine", True)


def with_pool_feed(chain: AgentChain, deployments: Path) -> PoolChain:
    """Place the exchange, make a history of swaps, deploy the feed and let the Safe allow it. The deployment file in
    the folder names it afterwards. From then on the chain mines a block only for a transaction."""
    node = LocalNode(chain.url)
    _mine_each(node)
    agent_pools.place_weth(node)
    pools = agent_pools.build(node, chain.deployment.token("USDC").address)
    agent_pools.make_history(node, pools, chain.now + PAST, 60)
    who = agent_pools.trader(node)
    feed = _deployed(chain, who, pools)
    others = (each for each in chain.deployment.published_feeds if each.key != KEY)
    made = replace(chain, deployment=chain.deployment.model_copy(update={"feeds": (*others, feed)}))
    played = PoolChain(made, feed, pools, Walk(who, pools))
    played.trade(60)
    played.record(grid_time(played.now - 1, STEP))
    safe = chain.deployment.safe
    assert safe is not None
    given = (feed.address, True, feed.memory_seconds, feed.max_age_seconds, feed.pot_cap_units, feed.feed_cap_units)
    made.send(made.contracts.lister.call("setFeed", *given), safe.address)
    write_deployment(made.deployment, deployments / f"{made.deployment.network}.json")
    return played


def _deployed(chain: AgentChain, who: Actor, pools: AgentPools) -> PoolFeed:
    chosen = (pools.get(KEY), pools.weth)
    liquidity = [int(chain.read(Contract(pool.address, POOL).call("liquidity"))) for pool in chosen]
    token = next(each for each in agent_pools.TOKENS if each.key == KEY)
    usdc, supply = chain.deployment.token("USDC").address, token.supply * 10**18
    addresses = [pool.address for pool in chosen]
    made_with = (f"{KEY}", chosen[0].base, usdc, supply, addresses, liquidity, WINDOW, STEP, MAX_QUIET)
    address = who.deploy("PoolFeed", creation_code("PoolFeed"), [_CONFIG], [made_with])
    return PoolFeed(
        kind="pool",
        key=KEY,
        address=address,
        memory_seconds=MEMORY,
        max_age_seconds=600,
        pot_cap_units=1_000 * USD,
        feed_cap_units=64_000 * USD,
        token=chosen[0].base,
        token_decimals=18,
        quote=usdc,
        supply=supply,
        pools=tuple(
            PoolSource(address=pool.address, name=name, reference_liquidity=each)
            for pool, name, each in zip(
                chosen, ("Uniswap v3 VIRTUAL/WETH 0.3%", "Uniswap v3 WETH/USDC 0.05%"), liquidity, strict=True
            )
        ),
        window_seconds=WINDOW,
        step_seconds=STEP,
        max_quiet_seconds=MAX_QUIET,
    )

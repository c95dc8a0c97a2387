"""A pool on a local chain and its mirror: each step is done on both and every number compared."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from eth_utils.abi import event_abi_to_log_topic
from eth_utils.address import to_checksum_address
from web3._utils.events import get_event_data

from core.chain import Abi, Contract
from core.chain.contract import CODEC
from core.contracts.abi import abi
from core.feeds.uniswap import MAX_SQRT_PRICE, MAX_TICK, MIN_SQRT_PRICE, Pool, sqrt_price_at
from scripts._stack.chain_setup import ETH_EACH, LocalNode
from scripts._stack.genesis import creation_code
from scripts._stack.uniswap import MAX_UINT256, SPACINGS, Actor, Exchange, PoolKey, artifact, pool_abi
from tests.support.uniswap_mirror import MirrorPool, PoolError

SUPPLY = 2**120
FOREVER = 2**40  # a deadline that no local chain reaches


@dataclass
class World:
    """A fresh exchange with one pool. `now` is the time of the next block."""

    who: Actor
    exchange: Exchange
    key: PoolKey
    address: str
    mirror: MirrorPool
    now: int
    positions: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # number: lower, upper, liquidity
    compared: int = 0

    @classmethod
    def make(cls, url: str, fee_pips: int, sqrt_price: int) -> World:
        node = LocalNode(url)
        node.ask("evm_setAutomine", True)
        who = Actor(node, to_checksum_address("0x00000000000000000000000000000000000A11CE"))
        node.ask("anvil_setBalance", who.address, hex(ETH_EACH))
        code = creation_code("LocalAgentToken")
        made = [
            who.deploy(name, code, ["string", "string", "uint256"], [name, name, SUPPLY]) for name in ("One", "Two")
        ]
        exchange = Exchange.deploy(who, made[0])
        key = PoolKey.for_pair(made[0], made[1], fee_pips)
        exchange.approve(who, *made)
        begin = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16) + 100
        node.ask("evm_setNextBlockTimestamp", begin)
        address = exchange.open_pool(who, key, sqrt_price)
        mirror = MirrorPool.at(sqrt_price, fee_pips, SPACINGS[fee_pips])
        world = cls(who, exchange, key, address, mirror, begin)
        world.compare()
        return world

    @property
    def node(self) -> LocalNode:
        return self.who.node

    # ---------------------------------------------------------------- Steps, on both

    def wait(self, seconds: int) -> None:
        self.now += seconds

    def provide(self, lower: int, upper: int, amount0: int, amount1: int) -> None:
        self._next_block()
        receipt = self.exchange.provide(self.who, self.key, lower, upper, amount0, amount1)
        event = self._event(receipt, "Mint")
        manager = artifact("NonfungiblePositionManager").abi
        number = self._event(receipt, "IncreaseLiquidity", manager)["tokenId"]
        assert self.mirror.mint(lower, upper, event["amount"]) == (event["amount0"], event["amount1"])
        self.positions[number] = (lower, upper, event["amount"])
        self.compare()

    def withdraw(self, number: int, part: float) -> None:
        lower, upper, liquidity = self.positions[number]
        out = max(1, int(liquidity * part))
        self._next_block()
        event = self._event(self.exchange.withdraw(self.who, number, out), "Burn")
        assert self.mirror.burn(lower, upper, out) == (event["amount0"], event["amount1"])
        if out == liquidity:
            del self.positions[number]
        else:
            self.positions[number] = (lower, upper, liquidity - out)
        self.compare()

    def swap(self, zero_for_one: bool, amount: int, limit: int | None = None) -> None:
        try:
            swapped = self.mirror.copy().swap(zero_for_one, amount, limit)
        except (PoolError, ArithmeticError):
            return  # the real one is not asked for what cannot be
        if swapped.amount0 == 0 or swapped.amount1 == 0:
            return  # the router does not take a swap that moves nothing
        if amount < 0 and limit is None and min(swapped.amount0, swapped.amount1) != amount:
            return  # nor one that cannot give the whole output
        self._next_block()
        event = self._event(self._swapped(zero_for_one, amount, limit or 0), "Swap")
        before = self.mirror.copy()
        swapped = self.mirror.swap(zero_for_one, amount, limit)
        if amount > 0 and self.mirror.sqrt_price == limit:
            assert Pool.swap_to(before, limit) == swapped
            assert (before.tick, before.liquidity) == (self.mirror.tick, self.mirror.liquidity)
        assert (swapped.amount0, swapped.amount1) == (event["amount0"], event["amount1"])
        assert (self.mirror.sqrt_price, self.mirror.liquidity, self.mirror.tick) == (
            event["sqrtPriceX96"],
            event["liquidity"],
            event["tick"],
        )
        self.compare()

    def _swapped(self, zero_for_one: bool, amount: int, limit: int) -> dict[str, Any]:
        """Swap an amount in, or if negative, out at any cost."""
        pair = (self.key.token0, self.key.token1) if zero_for_one else (self.key.token1, self.key.token0)
        router = Contract(self.exchange.router, artifact("SwapRouter").abi)
        common = (*pair, self.key.fee_pips, self.who.address, FOREVER)
        if amount > 0:
            return self.who.send(router.call("exactInputSingle", (*common, amount, 0, limit)))
        return self.who.send(router.call("exactOutputSingle", (*common, -amount, MAX_UINT256, limit)))

    # ---------------------------------------------------------------- Comparing

    def compare(self) -> None:
        """Compare the contract's price and liquidity with the mirror's."""
        pool = Contract(self.address, pool_abi())
        price, tick, *_ = self.who.read(pool.call("slot0"))
        assert (price, tick) == (self.mirror.sqrt_price, self.mirror.tick)
        assert self.who.read(pool.call("liquidity")) == self.mirror.liquidity
        self.compared += 1

    def balance(self, token: str) -> int:
        return int(self.who.read(Contract(token, abi("LocalUSDC")).call("balanceOf", self.who.address)))

    def _next_block(self) -> None:
        latest = int(self.node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        self.now = max(self.now, latest + 1)
        self.node.ask("evm_setNextBlockTimestamp", self.now)

    def _event(self, receipt: dict[str, Any], name: str, of: Abi | None = None) -> dict[str, Any]:
        event = (of or pool_abi()).events[name]
        for log in receipt["logs"]:
            if log["topics"][0] == "0x" + event_abi_to_log_topic(event).hex():
                return dict(get_event_data(CODEC, event, log)["args"])
        raise AssertionError(f"no {name} in the receipt")


def any_ticks(dice: random.Random, world: World) -> tuple[int, int]:
    """Return the ends of a position: often near the price, sometimes everywhere."""
    spacing = world.mirror.spacing
    edge = MAX_TICK // spacing
    if dice.random() < 0.15:
        return -edge * spacing, edge * spacing
    middle = world.mirror.tick // spacing
    width = int(10 ** dice.uniform(0, 3.5))
    lower = min(max(middle + dice.randint(-width, width), -edge), edge - 1)
    return lower * spacing, min(lower + 1 + int(10 ** dice.uniform(0, 3.5)), edge) * spacing


def any_limit(dice: random.Random, world: World, zero_for_one: bool) -> int | None:
    if dice.random() < 0.6:
        return None
    away = int(10 ** dice.uniform(0, 4.5))
    if zero_for_one:
        return max(MIN_SQRT_PRICE + 1, sqrt_price_at(max(world.mirror.tick - away, -MAX_TICK)))
    return min(MAX_SQRT_PRICE - 1, sqrt_price_at(min(world.mirror.tick + 1 + away, MAX_TICK)))

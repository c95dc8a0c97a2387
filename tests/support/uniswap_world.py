"""A pool of the published Uniswap v3 contracts on a local chain, and our model of it."""

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
from core.feeds.uniswap import MAX_TICK, MIN_TICK, Q96, Pool, sqrt_price_at
from scripts._deploy.build import creation_code
from scripts._stack.chain_setup import ETH_EACH, LocalNode
from scripts._stack.uniswap import SPACINGS, Actor, Exchange, PoolKey, artifact, pool_abi

SUPPLY = 2**120
FOREVER = 2**40  # a deadline that no local chain reaches
MOST = 2**119


@dataclass
class World:
    """A new exchange with one pool. `now` is the time of the next block."""

    who: Actor
    exchange: Exchange
    key: PoolKey
    address: str
    now: int
    positions: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # number: lower, upper, liquidity

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
        return cls(who, exchange, key, address, begin)

    @property
    def node(self) -> LocalNode:
        return self.who.node

    @property
    def sqrt_price(self) -> int:
        return int(self._slot0()[0])

    def pool(self) -> Pool:
        """Return the model of the pool as it is now. Its ticks are those of the positions, not read from the chain."""
        price, tick, *_ = self._slot0()
        net: dict[int, int] = {}
        for lower, upper, liquidity in self.positions.values():
            net[lower] = net.get(lower, 0) + liquidity
            net[upper] = net.get(upper, 0) - liquidity
        in_range = self.who.read(Contract(self.address, pool_abi()).call("liquidity"))
        return Pool(self.key.fee_pips, price / Q96, tick, in_range, net)

    # ---------------------------------------------------------------- Steps

    def wait(self, seconds: int) -> None:
        self.now += seconds

    def provide(self, lower: int, upper: int, amount0: int, amount1: int) -> None:
        self._next_block()
        receipt = self.exchange.provide(self.who, self.key, lower, upper, amount0, amount1)
        manager = artifact("NonfungiblePositionManager").abi
        number = self._event(receipt, "IncreaseLiquidity", manager)["tokenId"]
        self.positions[number] = (lower, upper, self._event(receipt, "Mint")["amount"])

    def withdraw(self, number: int, part: float) -> None:
        lower, upper, liquidity = self.positions.pop(number)
        out = max(1, int(liquidity * part))
        self._next_block()
        self.exchange.withdraw(self.who, number, out)
        if out < liquidity:
            self.positions[number] = (lower, upper, liquidity - out)

    def swap(self, sqrt_price: int) -> tuple[int, int]:
        """Swap until the price is `sqrt_price`. Return the amounts; positive ones went into the pool."""
        down = sqrt_price < self.sqrt_price
        pair = (self.key.token0, self.key.token1) if down else (self.key.token1, self.key.token0)
        router = Contract(self.exchange.router, artifact("SwapRouter").abi)
        self._next_block()
        order = (*pair, self.key.fee_pips, self.who.address, FOREVER, MOST, 0, sqrt_price)
        event = self._event(self.who.send(router.call("exactInputSingle", order)), "Swap")
        assert event["sqrtPriceX96"] == sqrt_price
        return event["amount0"], event["amount1"]

    def balance(self, token: str) -> int:
        return int(self.who.read(Contract(token, abi("LocalUSDC")).call("balanceOf", self.who.address)))

    def _slot0(self) -> Any:
        return self.who.read(Contract(self.address, pool_abi()).call("slot0"))

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
    spacing = SPACINGS[world.key.fee_pips]
    edge = MAX_TICK // spacing
    if dice.random() < 0.15:
        return -edge * spacing, edge * spacing
    middle = world.pool().tick // spacing
    width = int(10 ** dice.uniform(0, 3.5))
    lower = min(max(middle + dice.randint(-width, width), -edge), edge - 1)
    return lower * spacing, min(lower + 1 + int(10 ** dice.uniform(0, 3.5)), edge) * spacing


def any_price(dice: random.Random, world: World) -> int:
    """Draw a price to swap to: usually near the present one, and more often towards the middle of all prices."""
    tick = world.pool().tick
    down = dice.random() < (0.8 if tick > 150_000 else 0.2 if tick < -150_000 else 0.5)
    to = tick + int(10 ** dice.uniform(0.5, 4.5)) * (-1 if down else 1)  # at least three ticks
    return int(sqrt_price_at(min(max(to, MIN_TICK + 1), MAX_TICK - 1)) * Q96)

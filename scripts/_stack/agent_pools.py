"""The agents' tokens of a local stack, with pools on the real Uniswap v3 and a history of swaps. As on Base, each token
has a pool with WETH, and one WETH/USDC pool prices ether. The pools' prices follow the same seeded random walk as the
other local prices: a trader swaps in each pool until its price matches the walk."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from core.chain import Abi, Call, Contract
from core.contracts.abi import abi
from core.feeds.uniswap import Q96, tick_at
from keeper.sources import ONE, LatestRound, first_value, simulated_step
from scripts._deploy.build import compiled_code, creation_code
from scripts._stack import wallets
from scripts._stack.chain_setup import LocalNode, PlacedContract, place
from scripts._stack.uniswap import SPACINGS, Actor, Exchange, PoolKey, artifact, grow_cardinality, pool_abi

WETH: Final = "0x4200000000000000000000000000000000000006"
"""The address of wrapped ether on Base."""
TOKEN_FEE, WETH_FEE = 3_000, 500
ETH_KEY, ETH_DOLLARS = "ETH/price", 3_000
ETH_DAMPING = 8
"""Ether's price moves by an eighth of the walk's steps."""
CARDINALITY: Final = 4_000
"""Enough for markets on a feed with a window of two minutes: an hour of one-second blocks, with a margin."""
DEPTH_USD: Final = {TOKEN_FEE: 2_000_000, WETH_FEE: 20_000_000}
"""Liquidity on each side of a pool over all prices, and the same again within `NEAR_TICKS` of the first price."""
NEAR_TICKS: Final = 6_000  # ticks, 82%
TRADER_ETH: Final = 100_000
SEED: Final = "local pools"
_MAX_AMOUNT: Final = 2**100  # of a token: the limit of the price ends every swap


@dataclass(frozen=True)
class AgentToken:
    symbol: str
    name: str
    supply: int  # whole tokens

    @property
    def key(self) -> str:
        return f"{self.symbol}/market_cap"


TOKENS: Final = (
    AgentToken("BNKR", "BankrCoin", 100_000_000_000),
    AgentToken("AIXBT", "aixbt by Virtuals", 1_000_000_000),
    AgentToken("VIRTUAL", "Virtual Protocol", 1_000_000_000),
)


@dataclass(frozen=True)
class LocalPool:
    """A pool of the local stack. It prices the token `base` in the token `quote`."""

    key: str  # of the walk: BNKR/market_cap, ETH/price
    address: str
    place: PoolKey
    base: str
    quote: str
    name: str  # for people: Uniswap v3 BNKR/WETH 0.3%
    scale: Fraction  # quote units per base unit at a walk's value of 1 (8 decimals) and a quote token worth 1 USD

    def sqrt_price(self, value: int, quote_value: int) -> int:
        """Return the sqrt price for a value of the walk, rounded down. `quote_value` is the value of one quote token in
        USD with 8 decimals."""
        price = self.scale * Fraction(value, quote_value)
        if self.place.token0 != self.base:
            price = 1 / price
        return math.isqrt((price.numerator << 192) // price.denominator)

    def value(self, sqrt_price: int, quote_value: int) -> int:
        price = Fraction(sqrt_price * sqrt_price, 1 << 192)
        if self.place.token0 != self.base:
            price = 1 / price
        return max(1, int(price / self.scale * quote_value))


@dataclass(frozen=True)
class AgentPools:
    """All local pools and their exchange. The pool `weth` prices ether in USDC. Each other pool prices its token in
    ether."""

    exchange: Exchange
    tokens: Mapping[str, str]  # symbol: address
    weth: LocalPool
    token_pools: tuple[LocalPool, ...]

    @property
    def all(self) -> tuple[LocalPool, ...]:
        return (self.weth, *self.token_pools)

    def get(self, key: str) -> LocalPool:
        return next(each for each in self.all if each.key == key)

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self, enc_hook=str), indent=2) + b"\n")

    @classmethod
    def load(cls, path: Path) -> AgentPools:
        return msgspec.json.decode(path.read_bytes(), type=cls, dec_hook=_fraction)


def _fraction(_: type, text: Any) -> Fraction:
    return Fraction(text)


def place_weth(node: LocalNode) -> None:
    place(node, [PlacedContract(WETH, compiled_code("LocalWETH"))])


def build(node: LocalNode, usdc: str) -> AgentPools:
    """Deploy tokens, exchange and pools, with liquidity at the random walk's first values. The chain must mine each
    transaction automatically."""
    who = trader(node)
    _fund_trader(who, usdc)
    code = creation_code("LocalAgentToken")
    kinds = ["string", "string", "uint256"]
    made = {
        token.symbol: who.deploy(token.symbol, code, kinds, [token.name, token.symbol, token.supply * 10**18])
        for token in TOKENS
    }
    exchange = Exchange.deploy(who, WETH)
    exchange.approve(who, usdc, WETH, *made.values())
    ether = _open_pool(
        who, exchange, ETH_KEY, "WETH/USDC", WETH, usdc, WETH_FEE, Fraction(10**6, 10**18), ETH_DOLLARS * ONE, ONE
    )
    pools = []
    for token in TOKENS:
        # One unit is worth its share of the market cap, in units of ether: both have 18 decimals.
        scale, cap = Fraction(1, token.supply), first_value(token.key)
        at = (made[token.symbol], WETH, TOKEN_FEE, scale, cap, ETH_DOLLARS * ONE)
        pools.append(_open_pool(who, exchange, token.key, f"{token.symbol}/WETH", *at))
    return AgentPools(exchange, made, ether, tuple(pools))


def exist(node: LocalNode, pools: AgentPools) -> bool:
    return all(node.ask("eth_getCode", pool.address, "latest") != "0x" for pool in pools.all)


def feed_requests_toml(pools: AgentPools, numbers: Mapping[str, int]) -> str:
    """Return a request file in TOML. It requests a feed for each token, over the token's WETH pool and the WETH/USDC
    pool."""
    tables = []
    for token in TOKENS:
        key = json.dumps(token.key)
        given = {"token": pools.tokens[token.symbol], **numbers}
        tables.append([f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in given.items())])
        tables += [
            [f"[[{key}.pools]]", f'address = "{pool.address}"', f'name = "{pool.name}"']
            for pool in (pools.get(token.key), pools.weth)
        ]
    return "\n\n".join("\n".join(lines) for lines in tables) + "\n"


def trader(node: LocalNode) -> Actor:
    """Fund the account that owns the local pools' liquidity and moves their prices. Return the account."""
    actor = Actor(node, wallets.wallet("pool trader").address)
    node.ask("anvil_setBalance", actor.address, hex(2 * TRADER_ETH * wallets.ETH))
    return actor


def _fund_trader(who: Actor, usdc: str) -> None:
    who.send(Contract(WETH, WETH_ABI).call("deposit"), TRADER_ETH * wallets.ETH)
    dollars = TRADER_ETH * ETH_DOLLARS * 10**6
    who.send(Contract(usdc, abi("LocalUSDC")).call("mint", who.address, dollars))


def _open_pool(
    who: Actor,
    exchange: Exchange,
    key: str,
    pair: str,
    base: str,
    quote: str,
    fee_pips: int,
    scale: Fraction,
    value: int,
    quote_value: int,
) -> LocalPool:
    place = PoolKey.for_pair(base, quote, fee_pips)
    name = f"Uniswap v3 {pair} {fee_pips / 10_000:g}%"
    start = LocalPool(key, "", place, base, quote, name, scale).sqrt_price(value, quote_value)
    pool = LocalPool(key, exchange.open_pool(who, place, start), place, base, quote, name, scale)
    decimals = 6 if fee_pips == WETH_FEE else 18
    of_quote = DEPTH_USD[fee_pips] * ONE * 10**decimals // quote_value  # down
    of_base = int(of_quote / (scale * Fraction(value, quote_value)))
    amounts = (of_base, of_quote) if place.token0 == base else (of_quote, of_base)
    exchange.provide_everywhere(who, place, *amounts)
    spacing = SPACINGS[fee_pips]
    middle = tick_at(start / Q96) // spacing * spacing
    width = NEAR_TICKS // spacing * spacing
    exchange.provide(who, place, middle - width, middle + width, *amounts)
    grow_cardinality(who, pool.address, CARDINALITY)
    return pool


# ---------------------------------------------------------------- Moving prices


class Walk:
    """The random walk of the pools' prices, and the swaps that move each pool to its next value."""

    def __init__(self, who: Actor, pools: AgentPools) -> None:
        self.who, self.pools = who, pools
        self._homes = {pool.key: first_value(pool.key) for pool in pools.token_pools}
        self._homes[pools.weth.key] = ETH_DOLLARS * ONE
        self._last: dict[str, int] = {}

    def value(self, pool: LocalPool) -> int:
        """Return a pool's current value in USD with 8 decimals: a token's market cap, or ether's price."""
        return pool.value(self._sqrt_price(pool), self._ether() if pool is not self.pools.weth else ONE)

    def calls(self, now: int) -> list[Call]:
        """Return the swaps of one step, ether's first. Swaps that are too small to move a price are left out."""
        ether = self.pools.weth
        was = self.value(ether)
        to = was + (self._step(ether, was, now) - was) // ETH_DAMPING
        swaps = [self._swap(ether, ether.sqrt_price(to, ONE))]
        for pool in self.pools.token_pools:
            value = pool.value(self._sqrt_price(pool), was)
            swaps.append(self._swap(pool, pool.sqrt_price(self._step(pool, value, now), to)))
        self._last = {pool.key: now for pool in self.pools.all}
        return [each for each in swaps if each is not None]

    def swap_to(self, pool: LocalPool, value: int) -> Call | None:
        """Return the swap that moves a pool to a value, or None if the pool already has that value."""
        return self._swap(pool, pool.sqrt_price(value, self._ether() if pool is not self.pools.weth else ONE))

    def _step(self, pool: LocalPool, value: int, now: int) -> int:
        last = LatestRound(value, self._last.get(pool.key, now - 60))
        return simulated_step(last, self._homes[pool.key], SEED, pool.key, now)

    def _swap(self, pool: LocalPool, target: int) -> Call | None:
        here = self._sqrt_price(pool)
        if here == target:
            return None
        down = target < here
        pair = (pool.place.token0, pool.place.token1) if down else (pool.place.token1, pool.place.token0)
        router = Contract(self.pools.exchange.router, artifact("SwapRouter").abi)
        order = (*pair, pool.place.fee_pips, self.who.address, 2**40, _MAX_AMOUNT, 0, target)
        return router.call("exactInputSingle", order)

    def _ether(self) -> int:
        return self.pools.weth.value(self._sqrt_price(self.pools.weth), ONE)

    def _sqrt_price(self, pool: LocalPool) -> int:
        return int(self.who.read(Contract(pool.address, pool_abi()).call("slot0"))[0])


def make_history(node: LocalNode, pools: AgentPools, until: int | None, every: int) -> None:
    """Mine a block of swaps every `every` seconds, from the chain's last block up to `until` or, if `until` is None, up
    to now. anvil's clock continues from the last timestamp it was given, so after a history that ends now, the clock is
    correct."""
    walk = Walk(trader(node), pools)
    node.ask("anvil_impersonateAccount", walk.who.address)
    begin = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    node.ask("evm_setAutomine", False)
    try:
        for now in range(begin + every, until or int(time.time()), every):
            sent = [node.send(walk.who.address, call.parameters()) for call in walk.calls(now)]
            node.ask("evm_mine", {"timestamp": now})
            for each in sent:
                node.wait_for_receipt(each, "a swap in the local pools")
        node.ask("evm_mine", {"timestamp": until or int(time.time())})
    finally:
        node.ask("evm_setAutomine", True)


def trade_once(node: LocalNode, walk: Walk, now: int) -> None:
    for call in walk.calls(now):
        walk.who.send(call)


WETH_ABI: Final = Abi([{"type": "function", "name": "deposit", "inputs": [], "outputs": []}])

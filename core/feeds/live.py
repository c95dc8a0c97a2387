"""Reads a live pool at one block: price, fee, the liquidity of all ticks within reach, and past mean prices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from eth_typing import ABIComponent, ABIFunction

from core.chain import Abi, Block, ChainClient, Contract, RpcError, checksum, values
from core.contracts.feeds import PoolFactory
from core.errors import VpmError
from core.feeds.cost import REACH_TICKS
from core.feeds.uniswap import Pool, Tick

WORD: Final = 256
LOG_TICK: Final = math.log(1.0001)


class NoPool(VpmError):
    """The address is not a pool with the interface of Uniswap v3."""

    code = "no_pool"
    exit_code = 2


def _function(name: str, inputs: str, *outputs: str) -> ABIFunction:
    def unnamed(types: Sequence[str]) -> list[ABIComponent]:
        return [{"name": "", "type": each} for each in types]

    return {"type": "function", "name": name, "inputs": unnamed(inputs.split()), "outputs": unnamed(outputs)}


# What these pools have in common; the fields after `tick` in slot0 vary by protocol.
POOL: Final = Abi(
    [
        _function("factory", "", "address"),
        _function("slot0", "", "uint160", "int24", "uint16", "uint16", "uint16"),
        _function("liquidity", "", "uint128"),
        _function("fee", "", "uint24"),
        _function("tickSpacing", "", "int24"),
        _function("token0", "", "address"),
        _function("token1", "", "address"),
        _function("tickBitmap", "int16", "uint256"),
        _function("ticks", "int24", "uint128", "int128"),
        _function("observations", "uint256", "uint32", "int56", "uint160", "bool"),
        _function("observe", "uint32[]", "int56[]", "uint160[]"),
        _function("increaseObservationCardinalityNext", "uint16"),
    ]
)
FACTORY: Final = Abi([_function("getPool", "address address uint24", "address")])
TOKEN: Final = Abi(
    [
        _function("decimals", "", "uint8"),
        _function("symbol", "", "string"),
        _function("totalSupply", "", "uint256"),
    ]
)


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A token's address, symbol and decimals."""

    address: str
    symbol: str
    decimals: int


@dataclass(frozen=True, slots=True)
class LivePool:
    """A pool at one block. `cardinality_next` is the size its ring of observations grows to at the next wrap."""

    address: str
    pool: Pool
    token0: TokenFacts
    token1: TokenFacts
    cardinality: int
    cardinality_next: int
    oldest_at: int
    newest_at: int

    def price0(self) -> float:
        """Return the price of one whole token0 in whole token1."""
        raw = (self.pool.sqrt_price / 2**96) ** 2
        return float(raw * 10.0 ** (self.token0.decimals - self.token1.decimals))


async def require_genuine(client: ChainClient, address: str, factories: Sequence[PoolFactory], block: int) -> None:
    """Raise NoPool unless one of the factories created the pool, since anyone can deploy a look-alike."""
    pool, contract = checksum(address), Contract(address, POOL)
    names = ", ".join(f"{each.name} {each.address}" for each in factories) or "it lists none"
    try:
        answers = await client.read_many(
            [contract.call(name) for name in ("factory", "token0", "token1", "fee")], block
        )
        factory, token0, token1, fee = values(answers)
    except RpcError as error:
        raise NoPool(
            f"{pool} does not return its factory, tokens and fee: {error.sentence()}",
            hint=f"Choose a pool of a factory in the deployment file ({names}).",
        ) from None
    genuine = next((each for each in factories if each.address == checksum(factory)), None)
    if genuine is None:
        raise NoPool(
            f"{pool} was created by {checksum(factory)}, which is not a factory in the deployment file ({names}).",
            hint="Choose another pool. Pools of Velodrome and Aerodrome do not work: their oracle writes every 15 "
            "seconds and applies the last price to all of them, so a past reading can still change.",
        )
    made = checksum(await client.read(Contract(factory, FACTORY).call("getPool", token0, token1, fee), block))
    if made != pool:
        raise NoPool(
            f"{pool} claims to be from {genuine.name} ({genuine.address}), but that factory's pool of these tokens and "
            f"this fee is {made}.",
            hint="It is a look-alike. Choose the factory's pool.",
        )


async def read_pool(client: ChainClient, address: str, head: Block) -> LivePool:
    contract, at = Contract(address, POOL), head.number
    names = ("slot0", "liquidity", "fee", "tickSpacing", "token0", "token1")
    answers = await client.read_many([contract.call(name) for name in names], at)
    try:
        slot0, liquidity, fee, spacing, token0, token1 = values(answers)
    except RpcError as error:
        raise NoPool(
            f"{checksum(address)} is not a pool with the interface of Uniswap v3: {error.sentence()}",
            hint="Check that it is the pool's own address, on the node's chain.",
        ) from None
    sqrt_price, tick, index, cardinality, following = slot0
    if sqrt_price == 0:
        raise NoPool(f"The pool {checksum(address)} has not been initialized with a price.")
    oldest_at, newest_at = await _ends(client, contract, index, cardinality, at)
    pool = Pool(fee, spacing, sqrt_price, tick, liquidity)
    await _read_ticks(client, contract, pool, at)
    return LivePool(
        checksum(address),
        pool,
        await _token(client, token0, at),
        await _token(client, token1, at),
        cardinality,
        following,
        oldest_at,
        newest_at,
    )


async def mean_ticks(client: ChainClient, address: str, head: Block, seconds: int, spans: int) -> list[float]:
    """Return the mean ticks of consecutive spans up to the head, oldest first."""
    ago = [seconds * each for each in range(spans, -1, -1)]
    cumulatives, _ = await client.read(Contract(address, POOL).call("observe", ago), head.number)
    return [(after - before) / seconds for before, after in pairwise(cumulatives)]


async def _ends(client: ChainClient, contract: Contract, index: int, cardinality: int, at: int) -> tuple[int, int]:
    """Return the times of the ring's oldest and newest observations."""
    places = ((index + 1) % cardinality, 0, index)
    following, first, newest = values(await client.read_many([contract.call("observations", n) for n in places], at))
    oldest = following if following[3] else first
    return oldest[0], newest[0]


async def _read_ticks(client: ChainClient, contract: Contract, pool: Pool, at: int) -> None:
    spacing = pool.spacing
    low, high = (pool.tick - REACH_TICKS) // spacing // WORD, (pool.tick + REACH_TICKS) // spacing // WORD
    words = range(low, high + 1)
    maps = values(await client.read_many([contract.call("tickBitmap", word) for word in words], at))
    marked = [
        (word * WORD + bit) * spacing
        for word, bits in zip(words, maps, strict=True)
        for bit in range(WORD)
        if bits >> bit & 1
    ]
    ticks = values(await client.read_many([contract.call("ticks", tick) for tick in marked], at))
    pool.initialized = marked
    pool.ticks = {tick: Tick(gross, net) for tick, (gross, net) in zip(marked, ticks, strict=True)}


async def _token(client: ChainClient, address: str, at: int) -> TokenFacts:
    contract = Contract(address, TOKEN)
    decimals, symbol = await client.read_many([contract.call("decimals"), contract.call("symbol")], at)
    if isinstance(decimals, RpcError):
        raise NoPool(f"The pool's token {checksum(address)} does not return its decimals: {decimals.sentence()}")
    shown = symbol if isinstance(symbol, str) else checksum(address)  # a few old tokens answer with bytes32
    return TokenFacts(checksum(address), shown, decimals)

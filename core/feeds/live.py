"""Live pools: their state at one block, past mean prices, the cost of moving a reading, and the resulting cap.

`vpm feed cost`, `allow_feed` and the keeper use the cost. The keeper computes each feed's cap repeatedly.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from eth_typing import ABIComponent, ABIFunction

from core.chain import Abi, Block, ChainClient, Contract, RpcError, checksum, values
from core.contracts.feeds import PoolFactory, PoolFeed
from core.errors import VpmError
from core.feeds.cost import (
    REACH_TICKS,
    SAFE_SHARE,
    SECONDS_PER_YEAR,
    Cap,
    PricedPool,
    feed_cap,
    least_window,
    sigma_of,
)
from core.feeds.uniswap import LOG_TICK, Q96, Pool
from core.money import USD

WORD: Final = 256


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
    address: str
    symbol: str
    decimals: int


@dataclass(frozen=True, slots=True)
class LivePool:
    """A pool at one block. `cardinality_next` is the size to which its ring of observations grows at the next wrap."""

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
        return self.pool.sqrt_price**2 * 10.0 ** (self.token0.decimals - self.token1.decimals)


async def require_genuine(client: ChainClient, address: str, factories: Sequence[PoolFactory], block: int) -> None:
    """Raise NoPool unless one of the factories created the pool. Anyone can deploy a look-alike."""
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
            f"{pool} claims to be from {genuine.name} ({genuine.address}), but that factory's pool for these tokens "
            f"and this fee is {made}.",
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
    net = await _net_liquidity(client, contract, tick, spacing, at)
    return LivePool(
        checksum(address),
        Pool(fee, sqrt_price / Q96, tick, liquidity, net),
        await _token(client, token0, at),
        await _token(client, token1, at),
        cardinality,
        following,
        oldest_at,
        newest_at,
    )


async def mean_ticks(client: ChainClient, address: str, head: Block, seconds: int, spans: int) -> list[float]:
    """Return the mean tick of each of `spans` consecutive spans up to the head, oldest first."""
    ago = [seconds * each for each in range(spans, -1, -1)]
    cumulatives, _ = await client.read(Contract(address, POOL).call("observe", ago), head.number)
    return [(after - before) / seconds for before, after in pairwise(cumulatives)]


async def _ends(client: ChainClient, contract: Contract, index: int, cardinality: int, at: int) -> tuple[int, int]:
    """Return the times of the ring's oldest and newest observations."""
    places = ((index + 1) % cardinality, 0, index)
    following, first, newest = values(await client.read_many([contract.call("observations", n) for n in places], at))
    oldest = following if following[3] else first
    return oldest[0], newest[0]


async def _net_liquidity(client: ChainClient, contract: Contract, tick: int, spacing: int, at: int) -> dict[int, int]:
    """Return the net liquidity of each initialized tick within reach of `tick`."""
    words = range((tick - REACH_TICKS) // spacing // WORD, (tick + REACH_TICKS) // spacing // WORD + 1)
    maps = values(await client.read_many([contract.call("tickBitmap", word) for word in words], at))
    marked = [
        (word * WORD + bit) * spacing
        for word, bits in zip(words, maps, strict=True)
        for bit in range(WORD)
        if bits >> bit & 1
    ]
    ticks = values(await client.read_many([contract.call("ticks", each) for each in marked], at))
    return {each: net for each, (_, net) in zip(marked, ticks, strict=True)}


async def _token(client: ChainClient, address: str, at: int) -> TokenFacts:
    contract = Contract(address, TOKEN)
    decimals, symbol = await client.read_many([contract.call("decimals"), contract.call("symbol")], at)
    if isinstance(decimals, RpcError):
        raise NoPool(f"The pool's token {checksum(address)} does not return its decimals: {decimals.sentence()}")
    shown = symbol if isinstance(symbol, str) else checksum(address)  # a few old tokens return bytes32
    return TokenFacts(checksum(address), shown, decimals)


# ---------------------------------------------------------------- The cost of a reading


MIN_SPANS, MAX_SPANS = 10, 300
MIN_SPAN = 60
MIN_LIVE_WINDOW = 1_800  # seconds


class CostUnknown(VpmError):
    """The pools do not hold enough data to compute a cost."""

    code = "cost_unknown"
    exit_code = 2


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """The parameters of a cost report. `sigma` is the volatility per year (1 is 100%), or None to measure it."""

    addresses: tuple[str, ...]
    factories: tuple[PoolFactory, ...]
    quote: str
    window: int
    sigma: float | None
    own_share: float
    fee_bps: int


@dataclass(frozen=True, slots=True)
class Volatility:
    yearly: float
    origin: str


@dataclass(frozen=True, slots=True)
class CostReport:
    """The cost of moving a pool feed's reading."""

    asked: CostQuestion
    chain_id: int
    head: Block
    token: TokenFacts
    price: float
    pools: tuple[LivePool, ...]
    sources: tuple[PricedPool, ...]
    sigma: Volatility
    cap: Cap

    def cost(self, move: float) -> float:
        """Return the cost of moving the reading without arbitrage, through the cheapest pool."""
        return min(each.cheapest_push_cost(move) for each in self.sources)

    @property
    def least_window(self) -> int:
        return max(MIN_LIVE_WINDOW, least_window(self.sources, _per_second(self.sigma.yearly)))


async def report(client: ChainClient, asked: CostQuestion) -> CostReport:
    head = await client.head()
    for address in asked.addresses:
        await require_genuine(client, address, asked.factories, head.number)
    pools = tuple([await read_pool(client, address, head) for address in asked.addresses])
    token, price, sources, rises = _priced(pools, asked.quote)
    sigma = await _sigma(client, asked, head, pools, rises)
    # In a thread, since for a pool with very many ticks this takes seconds.
    cap = await asyncio.to_thread(
        feed_cap, sources, _per_second(sigma.yearly), asked.window, asked.own_share, asked.fee_bps
    )
    return CostReport(asked, await client.eth.chain_id, head, token, price, pools, sources, sigma, cap)


async def live_cap_units(client: ChainClient, factories: tuple[PoolFactory, ...], feed: PoolFeed, fee_bps: int) -> int:
    """Return the cap that a feed's pools support now, in units of the stablecoin, rounded down.

    Half of the pools' depth is assumed to be the attacker's own. Raise CostUnknown if the pools hold too little
    history.
    """
    pools = tuple(pool.address for pool in feed.pools)
    asked = CostQuestion(pools, factories, feed.quote, feed.window_seconds, None, SAFE_SHARE, fee_bps)
    return int((await report(client, asked)).cap.dollars * USD)


def _priced(
    pools: Sequence[LivePool], quote: str
) -> tuple[TokenFacts, float, tuple[PricedPool, ...], tuple[bool, ...]]:
    """Price the pools' tokens, from the dollar token back to the feed's token. Also return a flag for each pool:
    whether the price of the token that the pool adds rises with the tick."""
    dollars: dict[str, float] = {checksum(quote): 1.0}  # for one whole token
    sources: list[PricedPool] = []
    rises: list[bool] = []
    priced: TokenFacts | None = None
    for pool in reversed(pools):
        one, other = pool.token0, pool.token1
        if other.address in dollars:
            dollars[one.address] = dollars[other.address] * pool.price0()
            priced = one
        elif one.address in dollars:
            dollars[other.address] = dollars[one.address] / pool.price0()
            priced = other
        else:
            last = pool is pools[-1]
            needed = f"the dollar token {checksum(quote)}" if last else "a token of the next pool"
            raise CostUnknown(
                f"The pool {pool.address} holds {one.symbol} and {other.symbol}; neither is {needed}.",
                hint="Give a pool of the token and USDC, or one of the token and WETH and then one of WETH and USDC.",
            )
        rises.append(priced is one)
        units = (dollars[each.address] / 10**each.decimals for each in (one, other))
        sources.append(PricedPool(f"{one.symbol}/{other.symbol}", pool.pool, *units))
    assert priced is not None
    return priced, dollars[priced.address], tuple(reversed(sources)), tuple(reversed(rises))


async def _sigma(
    client: ChainClient, asked: CostQuestion, head: Block, pools: Sequence[LivePool], rises: Sequence[bool]
) -> Volatility:
    """Return the given volatility. If none is given, measure the volatility over spans of several lengths and return
    the lowest result.

    A price that jumps back and forth within its fee band looks more volatile over short spans than in the readings,
    which average over the window.
    """
    if asked.sigma is not None:
        return Volatility(asked.sigma, "given")
    remembered = head.timestamp - max(pool.oldest_at for pool in pools)
    volatilities: list[tuple[float, str]] = []
    for seconds in sorted({max(MIN_SPAN, asked.window // part) for part in (1, 3, 10)}):
        spans = min(MAX_SPANS, remembered // seconds)
        if spans < MIN_SPANS:
            continue
        logs = [0.0] * spans
        for pool, up in zip(pools, rises, strict=True):
            means = await mean_ticks(client, pool.address, head, seconds, spans)
            logs = [log + (mean if up else -mean) * LOG_TICK for log, mean in zip(logs, means, strict=True)]
        yearly = sigma_of(logs, seconds) * math.sqrt(SECONDS_PER_YEAR)
        volatilities.append((yearly, f"the pools' last {spans} spans of {seconds} s"))
    measured = min(volatilities, default=None)
    if measured is None or measured[0] == 0:
        why = "did not move" if volatilities else f"hold only {remembered} s of history"
        raise CostUnknown(
            f"The pools {why}, so their volatility cannot be measured.",
            hint="Pass a yearly volatility (--sigma 150 is 150%), or increase the cardinality and try again later.",
        )
    return Volatility(*measured)


def _per_second(yearly: float) -> float:
    return yearly / math.sqrt(SECONDS_PER_YEAR)

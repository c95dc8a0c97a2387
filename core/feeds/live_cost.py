"""The cost of moving the reading of one or two live pools, and the resulting cap.

Used by `vpm feed cost`, by `allow_feed`, and by the keeper, which computes each feed's cap again and again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.chain import Block, ChainClient, checksum
from core.contracts.feeds import PoolFactory, PoolFeed
from core.errors import VpmError
from core.feeds.cost import (
    SAFE_SHARE,
    SECONDS_PER_YEAR,
    Cap,
    PricedPool,
    feed_cap,
    least_window,
    sigma_of,
)
from core.feeds.live import LOG_TICK, LivePool, TokenFacts, mean_ticks, read_pool, require_genuine
from core.money import USD

MIN_SPANS, MAX_SPANS = 10, 300
MIN_SPAN = 60
MIN_LIVE_WINDOW = 1_800  # seconds


class CostUnknown(VpmError):
    """The pools do not hold enough data to compute a cost."""

    code = "cost_unknown"
    exit_code = 2


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """The parameters of a cost report. `sigma`: volatility per year, 1 is 100%; None to measure it."""

    addresses: tuple[str, ...]
    factories: tuple[PoolFactory, ...]
    quote: str
    window: int
    sigma: float | None
    own_share: float
    fee_bps: int


@dataclass(frozen=True, slots=True)
class Volatility:
    """A yearly volatility and its origin."""

    yearly: float
    origin: str


@dataclass(frozen=True, slots=True)
class CostReport:
    """The cost of moving a pool feed's reading: the answer to a `CostQuestion`."""

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

    Half of their depth is assumed to be the attacker's own. Raises CostUnknown if the pools hold too little history.
    """
    pools = tuple(pool.address for pool in feed.pools)
    asked = CostQuestion(pools, factories, feed.quote, feed.window_seconds, None, SAFE_SHARE, fee_bps)
    return int((await report(client, asked)).cap.dollars * USD)


def _priced(
    pools: Sequence[LivePool], quote: str
) -> tuple[TokenFacts, float, tuple[PricedPool, ...], tuple[bool, ...]]:
    """Price the pools from the dollar token back to the token; also return whether its price rises with each tick."""
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
    """Return the lowest volatility over spans of several lengths: a price that jumps back and forth within its fee band
    looks more volatile over short spans than readings of the window are."""
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

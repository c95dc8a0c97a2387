"""What it costs to move the reading of one or two live pools, and the cap that follows.

One arithmetic for `vpm feed cost`, for `allow_feed`, and for the keeper, which works each feed's cap out anew.
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
MIN_LIVE_WINDOW = 1_800  # seconds; no live window is shorter


class CostUnknown(VpmError):
    """The pools do not say enough for a cost."""

    code = "cost_unknown"
    exit_code = 2


@dataclass(frozen=True, slots=True)
class CostQuestion:
    """What the caller wants to know. `sigma`: for one year, 1 is a hundred percent; None: measured."""

    addresses: tuple[str, ...]
    factories: tuple[PoolFactory, ...]
    quote: str
    window: int
    sigma: float | None
    own_share: float
    fee_bps: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A volatility for one year, and where it is from."""

    yearly: float
    origin: str


@dataclass(frozen=True, slots=True)
class CostReport:
    """What moving a pool feed's reading costs: the answer to a `CostQuestion`."""

    asked: CostQuestion
    chain_id: int
    head: Block
    token: TokenFacts
    price: float
    pools: tuple[LivePool, ...]
    sources: tuple[PricedPool, ...]
    sigma: Measured
    cap: Cap

    def cost(self, move: float) -> float:
        """Return what it costs to move the reading without arbitrage. The cheaper pool counts."""
        return min(each.cheapest_unopposed(move) for each in self.sources)

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
    # In a thread: over a pool with very many ticks this takes seconds, and a daemon has other things to do.
    cap = await asyncio.to_thread(
        feed_cap, sources, _per_second(sigma.yearly), asked.window, asked.own_share, asked.fee_bps
    )
    return CostReport(asked, await client.eth.chain_id, head, token, price, pools, sources, sigma, cap)


async def live_cap_units(client: ChainClient, factories: tuple[PoolFactory, ...], feed: PoolFeed, fee_bps: int) -> int:
    """Return the cap that a feed's pools bear now, in units of the stablecoin, rounded down.

    Half of their depth is taken for the attacker's own. Raises CostUnknown where they do not remember enough.
    """
    pools = tuple(pool.address for pool in feed.pools)
    asked = CostQuestion(pools, factories, feed.quote, feed.window_seconds, None, SAFE_SHARE, fee_bps)
    return int((await report(client, asked)).cap.dollars * USD)


def _priced(
    pools: Sequence[LivePool], quote: str
) -> tuple[TokenFacts, float, tuple[PricedPool, ...], tuple[bool, ...]]:
    """Price the pools from what counts as a dollar back to the token; return also whether prices rise with the tick."""
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
            needed = f"the token that counts as one USD, {checksum(quote)}" if last else "a token of the next pool"
            raise CostUnknown(
                f"The pool {pool.address} is of {one.symbol} and {other.symbol}; neither is {needed}.",
                hint="Name a pool of the token and USDC; or one of the token and WETH, then one of WETH and USDC.",
            )
        rises.append(priced is one)
        units = (dollars[each.address] / 10**each.decimals for each in (one, other))
        sources.append(PricedPool(f"{one.symbol}/{other.symbol}", pool.pool, *units))
    assert priced is not None
    return priced, dollars[priced.address], tuple(reversed(sources)), tuple(reversed(rises))


async def _sigma(
    client: ChainClient, asked: CostQuestion, head: Block, pools: Sequence[LivePool], rises: Sequence[bool]
) -> Measured:
    """Over spans of several lengths, the least that any of them shows: a price that jumps to and fro inside its fee
    band looks livelier over short ones than a reading of the window finds it."""
    if asked.sigma is not None:
        return Measured(asked.sigma, "given")
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
        why = "did not move" if volatilities else f"remember {remembered} s only"
        raise CostUnknown(
            f"The pools {why}, so their volatility cannot be measured.",
            hint="Give one for a year: --sigma 150 is 150%. Or grow the cardinality and ask again later.",
        )
    return Measured(*measured)


def _per_second(yearly: float) -> float:
    return yearly / math.sqrt(SECONDS_PER_YEAR)

"""What it costs to move the reading of one or two live pools, and the cap that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.chain import Block, ChainClient, checksum
from core.contracts.feeds import PoolFactory
from core.errors import VpmError
from core.feeds.cost import (
    FLOOR,
    MOVES,
    SECONDS_PER_YEAR,
    Cap,
    PricedPool,
    feed_cap,
    least_window,
    sigma_of,
)
from core.feeds.live import LOG_TICK, LivePool, TokenFacts, mean_ticks, read_pool, require_genuine

MIN_SPANS, MAX_SPANS = 10, 300
MIN_SPAN = 60
SAFES_FLOOR = 1_800
"""Seconds; no live window is shorter."""
MARKETS = 12  # that the keeper usually has unsettled on a pool feed


class CannotSay(VpmError):
    """The pools do not say enough for a cost."""

    code = "cannot_say"
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

    def costs(self, move: float) -> tuple[float, float]:
        """To move the reading: while nobody arbitrages, and where every block is. The cheaper pool counts."""
        unopposed = min(each.cheapest_unopposed(move) for each in self.sources)
        return unopposed, min(each.cheapest_repeated(move, self.asked.window) for each in self.sources)

    @property
    def least_window(self) -> int:
        return max(SAFES_FLOOR, least_window(self.sources, _per_second(self.sigma.yearly)))

    def body(self) -> dict[str, Any]:
        cap = self.cap
        return {
            "chainId": self.chain_id,
            "block": self.head.number,
            "token": self.token.address,
            "symbol": self.token.symbol,
            "priceUsd": self.price,
            "windowSeconds": self.asked.window,
            "leastWindowSeconds": self.least_window,
            "volatilityPerYear": self.sigma.yearly,
            "volatilityFrom": self.sigma.origin,
            "ownShare": self.asked.own_share,
            "pools": [self._pool(pool, source) for pool, source in zip(self.pools, self.sources, strict=True)],
            "moves": [
                {"move": move, "nobodyArbitragesUsd": round(unopposed, 2), "everyBlockUsd": round(repeated, 2)}
                for move, (unopposed, repeated) in ((move, self.costs(move)) for move in MOVES)
            ],
            "cap": {
                "usd": math.floor(cap.dollars),
                "marketUsd": math.floor(cap.dollars / MARKETS),
                "byPushesUsd": round(cap.by_pushes, 2),
                "byPushingLiquidityOutUsd": None if cap.by_push_out is None else round(cap.by_push_out, 2),
                "factor": cap.factor,
                "resistanceUsd": round(cap.resistance, 4),
                "sd": round(cap.sd, 6),
                "reach": round(cap.reach, 4),
            },
        }

    def _pool(self, pool: LivePool, source: PricedPool) -> dict[str, Any]:
        out = source.push_out(self.asked.window, self.asked.own_share)
        return {
            "address": pool.address,
            "tokens": [pool.token0.symbol, pool.token1.symbol],
            "feePercent": pool.pool.fee_pips / 10_000,
            "depthUsd": round(source.depth(), 2),
            "liquidity": str(pool.pool.liquidity),
            "remembersSeconds": self.head.timestamp - pool.oldest_at,
            "quietSeconds": self.head.timestamp - pool.newest_at,
            "cardinality": pool.cardinality,
            "cardinalityNext": pool.cardinality_next,
            "pushLiquidityOut": None
            if out is None
            else {
                "tick": out.tick,
                "seconds": out.seconds,
                "nobodyArbitragesUsd": round(out.unopposed, 2),
                "everyBlockUsd": round(out.repeated, 2),
            },
        }


async def report(client: ChainClient, asked: CostQuestion) -> CostReport:
    head = await client.head()
    for address in asked.addresses:
        await require_genuine(client, address, asked.factories, head.number)
    pools = tuple([await read_pool(client, address, head) for address in asked.addresses])
    token, price, sources, rises = _priced(pools, asked.quote)
    sigma = await _sigma(client, asked, head, pools, rises)
    cap = feed_cap(sources, _per_second(sigma.yearly), asked.window, asked.own_share, asked.fee_bps)
    return CostReport(asked, await client.eth.chain_id, head, token, price, pools, sources, sigma, cap)


def _priced(
    pools: Sequence[LivePool], quote: str
) -> tuple[TokenFacts, float, tuple[PricedPool, ...], tuple[bool, ...]]:
    """From the pool of what counts as a dollar back to the token: prices, and whether they rise with each tick."""
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
            raise CannotSay(
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
        raise CannotSay(
            f"The pools {why}, so their volatility cannot be measured.",
            hint="Give one for a year: --sigma 150 is 150%. Or grow the cardinality and ask again later.",
        )
    return Measured(*measured)


def _per_second(yearly: float) -> float:
    return yearly / math.sqrt(SECONDS_PER_YEAR)


def lines(cost: CostReport) -> list[str]:
    """For people."""
    cap, asked = cost.cap, cost.asked
    shown = [
        f"{cost.token.symbol} at {cost.price:.6g} USD, on chain {cost.chain_id} at block {cost.head.number}",
        f"window {asked.window} s; volatility {cost.sigma.yearly:.0%} a year ({cost.sigma.origin})",
        "",
    ]
    for pool, source in zip(cost.pools, cost.sources, strict=True):
        remembers = (cost.head.timestamp - pool.oldest_at) / 3_600
        shown += [
            f"{source.name} {pool.address}, fee {pool.pool.fee_pips / 10_000:g}%",
            f"  depth: {source.depth():,.0f} USD move it by 1%",
            f"  history: {remembers:.1f} h; room for {pool.cardinality} observations "
            f"(growing to {pool.cardinality_next}); the last is {cost.head.timestamp - pool.newest_at} s old",
        ]
        out = source.push_out(asked.window, asked.own_share)
        if out is None:
            shown.append(f"  liquidity: no push leaves less than {float(FLOOR):.0%} of it in range")
        else:
            shown.append(
                f"  liquidity: {out.unopposed:,.0f} USD push it under {float(FLOOR):.0%} (tick {out.tick},"
                f" {out.seconds} s), or {out.repeated:,.0f} where every block is arbitraged"
            )
    shown += ["", f"{'the reading moves by':>22} {'nobody arbitrages':>20} {'every block is':>20}"]
    for move in MOVES:
        unopposed, repeated = cost.costs(move)
        shown.append(f"{move:>21.1%}  {unopposed:>16,.0f} USD {repeated:>16,.0f} USD")
    shown += [
        "",
        f"cap of a feed, all its unsettled markets together: {math.floor(cap.dollars):,} USD",
        f"  a market's, one part in {MARKETS} of it: {math.floor(cap.dollars / MARKETS):,} USD",
        f"  = {cap.factor:g} * phi * D1 * sd, with phi * D1 = {cap.resistance:,.2f} USD over all pools,",
        f"    {asked.own_share:.0%} of the depth left out as possibly the attacker's own,",
        f"    and sd = {cap.sd:.3%}, what the reading wanders while it is measured",
    ]
    if cap.by_push_out is not None:
        limits = "this is the limit" if cap.by_push_out < cap.by_pushes else "it is more, as it has to be"
        shown.append(f"  pushing the liquidity out costs {cap.by_push_out:,.0f} USD: {limits}")
    if not cap.window_is_long_enough:
        shown.append(
            f"  the window is short for the fee: the band holds {cap.reach:.0%} of what the price wanders. "
            f"From {cost.least_window} s on the whole factor holds"
        )
    return shown

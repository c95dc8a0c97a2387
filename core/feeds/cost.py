"""What it costs an attacker to move a reading, and the cap on markets that makes the attack unprofitable.
docs/pool-feeds.md explains the cap and its assumptions.

A reading is the mean of the log price over a window. The cheapest way to move the reading by x is to push the price by
x for the whole window. A shorter push must be proportionally larger, and the cost grows faster than the push.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from core.agent.book import MIN_BUCKET_BPS
from core.feeds.uniswap import FEE_ONE, MAX_TICK, MIN_TICK, Pool, sqrt_price_at
from core.money import BPS

MOVES: Final = (0.005, 0.01, 0.05, 0.2)
REACH_TICKS: Final = 25_000
"""How far liquidity is examined on both sides: prices from a twelfth to twelve times the current one."""
THIN: Final = 3
"""Readings need at least a third of the reference liquidity."""
FLOOR: Final = Fraction(1, THIN)
"""The fraction of the reference liquidity that a reading needs in harmonic mean over the window."""
SAFE_SHARE: Final = 0.5
"""The share of the depth assumed to be the attacker's own by default."""

FULL_REACH: Final = 0.2
FULL_FEE_BPS: Final = 200
FACTOR: Final = 35.0  # if bets pay at least FULL_FEE_BPS
LOW_FEE_FACTOR: Final = 30.0  # if they pay less, but at least 175
REACHES: Final = ((FULL_REACH, 1.0), (0.3, 0.4), (0.4, 0.2), (0.6, 0.08))
"""(reach, part): up to this ratio of the fee band to the price's deviation over the window, this part of the factor
applies; beyond the last, none."""
NARROWEST: Final = math.log(1 + MIN_BUCKET_BPS / BPS)  # the narrowest bucket the lister accepts, in log price
SECONDS_PER_YEAR: Final = 365.25 * 86_400


@dataclass(frozen=True, slots=True)
class PricedPool:
    """One of a feed's pools. `usd0` and `usd1` are the dollar values of one unit of each token before any push."""

    name: str
    pool: Pool
    usd0: float
    usd1: float

    @property
    def phi(self) -> float:
        return self.pool.fee_pips / FEE_ONE

    def swap_cost(self, start: float, end: float) -> float:
        """Return the dollars that a swap leaves in the pool when it moves the price from `start` to `end`."""
        amount0, amount1 = self.pool.swap(start, end)
        return amount0 * self.usd0 + amount1 * self.usd1

    def depth(self) -> float:
        """Return D1: the dollars it takes to move the price by 1% in the cheaper direction."""
        return min(self._through(0.01), self._through(-0.01))

    def _through(self, move: float) -> float:
        amount0, amount1 = self.pool.swap(self.pool.sqrt_price, price_after_move(self.pool.sqrt_price, move))
        return max(amount0 * self.usd0, amount1 * self.usd1) * (1 - self.phi)

    def push_cost(self, move: float) -> float:
        """Return the cost of pushing the log price by `move` without arbitrage. At the end the attacker either reverses
        the push or keeps the tokens bought, whichever is cheaper."""
        start = self.pool.sqrt_price
        end = price_after_move(start, move)
        kept = self.swap_cost(start, end)
        return min(kept, kept + self.swap_cost(end, start))

    def cheapest_push_cost(self, move: float) -> float:
        return min(self.push_cost(move), self.push_cost(-move))

    def push_out(self, window: int, own_share: float = 0.0) -> PushOut | None:
        """Return the cheapest way to invalidate a reading by pushing the price to a range with hardly any liquidity.
        The attacker first withdraws `own_share` of the liquidity.

        Return None if other providers leave enough liquidity everywhere.
        """
        others = 1 - Fraction(own_share)
        if others < FLOOR:
            return PushOut(self.pool.tick, 1, 0.0)  # withdrawing the own share is enough
        usual = 1 / (others * max(1, self.pool.liquidity))
        bar = 1 / (FLOOR * max(1, self.pool.liquidity))
        ways = []
        for stretch in self.pool.stretches:
            tick = stretch.lower if stretch.lower > self.pool.tick else stretch.upper - 1  # the nearest in it
            slower = 1 / (others * max(1, stretch.liquidity)) - usual
            if slower <= 0 or abs(tick - self.pool.tick) > REACH_TICKS:
                continue
            seconds = max(1, math.floor(window * (bar - usual) / slower) + 1)
            if seconds > window:
                continue
            move = 2 * math.log(sqrt_price_at(tick) / self.pool.sqrt_price)
            ways.append(PushOut(tick, seconds, self.push_cost(move) * float(others)))
        return min(ways, key=lambda way: way.cost, default=None)


@dataclass(frozen=True, slots=True)
class PushOut:
    """A push of the price to a tick with hardly any liquidity. The price must stay there for `seconds`; `cost` is in
    dollars and assumes no arbitrage."""

    tick: int
    seconds: int
    cost: float


def price_after_move(sqrt_price: float, move: float) -> float:
    """Return the square-root price after a move of the log price, clamped to a pool's range."""
    return min(max(sqrt_price * math.exp(move / 2), sqrt_price_at(MIN_TICK)), sqrt_price_at(MAX_TICK))


# ---------------------------------------------------------------- The cap


@dataclass(frozen=True, slots=True)
class Cap:
    """The cap in dollars on all unsettled markets of a feed together, with the values from which it is derived."""

    dollars: float
    by_pushes: float
    by_push_out: float | None
    sd: float  # of the reading, at most the narrowest bucket
    reach: float
    factor: float
    resistance: float  # phi * D1 over all pools, without the attacker's share

    @property
    def window_is_long_enough(self) -> bool:
        return self.reach <= FULL_REACH


def cap_factor(reach: float, fee_bps: int = FULL_FEE_BPS) -> float:
    """Return the cap's factor. The factor is lower for low bet fees, and for windows that are short relative to the
    pools' fees."""
    full = FACTOR if fee_bps >= FULL_FEE_BPS else LOW_FEE_FACTOR
    return full * next((part for most, part in REACHES if reach <= most), 0.0)


def feed_cap(
    sources: Sequence[PricedPool],
    sigma: float,
    window: int,
    own_share: float = SAFE_SHARE,
    fee_bps: int = FULL_FEE_BPS,
) -> Cap:
    """Compute the cap of a feed. `sigma` is the volatility of the log price per square root of a second.

    In a chain of pools, an attacker uses the cheapest mix of pushes, so the pools' resistances combine like parallel
    resistors. Their fee bands add up.
    """
    resistance = 1 / sum(1 / (each.phi * each.depth()) for each in sources) * (1 - own_share)
    sd = min(sigma * math.sqrt(window / 3), NARROWEST)
    reach = sum(each.phi for each in sources) / (sigma * math.sqrt(window))
    factor = cap_factor(reach, fee_bps)
    by_pushes = factor * resistance * sd
    outs = [out.cost for each in sources if (out := each.push_out(window, own_share)) is not None]
    by_push_out = min(outs, default=None)
    dollars = by_pushes if by_push_out is None else min(by_pushes, by_push_out)
    return Cap(dollars, by_pushes, by_push_out, sd, reach, factor, resistance)


def least_window(sources: Sequence[PricedPool], sigma: float) -> int:
    """Return the shortest window, in whole minutes, that is long enough for the pools' fees."""
    seconds = (sum(each.phi for each in sources) / (FULL_REACH * sigma)) ** 2
    return math.ceil(seconds / 60) * 60


def sigma_of(means: Sequence[float], seconds: int) -> float:
    """Estimate the volatility per square root of a second. `means` are mean log prices over consecutive spans of
    `seconds`.

    In a random walk, the difference of neighbouring means has the standard deviation sigma * sqrt(2 / 3 * seconds).
    """
    steps = [after - before for before, after in pairwise(means)]
    if len(steps) < 2:
        raise ValueError("A volatility needs at least three spans.")
    return math.sqrt(sum(step * step for step in steps) / len(steps) * 3 / (2 * seconds))

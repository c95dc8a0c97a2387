"""What an attacker pays to move a reading, and the most that may stand on it so that he cannot earn by it.

A reading is the mean of the log price over a window. To move it by x he pushes the price by x and lets it stay, which
is the cheapest way: a move of y for a part of the window takes y * part = x, and costs rise faster than moves.

**No arbitrage.** The push stays until he takes it back. A swap of Q dollars pays the fee phi * Q each way. He may also
keep what he bought, sell it where the price was not pushed, and lose phi * Q + Q * x / 2. The cheaper one counts.

**Arbitraged every block.** Arbitrageurs bring the price back, but only into the pool's fee band: inside it there is
nothing to earn. A push inside the band therefore stays and costs at most phi * Q + Q * x / 2; one beyond it has to be
made anew in every block.

**The cap.** `D1` is what moves the price by 1%, so pushing by x takes about 100 * D1 * x dollars, and half a round trip
costs 100 * phi * D1 * x. The reading itself wanders by `sd = sigma * sqrt(window / 3)` while it is being measured. Who
looks on and pushes only when little is missing earns more than one who decides beforehand; how much is the solution of
a control problem, which `tests/unit/test_pool_impact_bound.py` solves. All markets that one push
decides, of `35 * phi * D1 * sd` dollars together, add less to his bet than the fee of that bet, 2% (30 in place of 35
where it is less, 1.75% at the least), provided that

- the window is long enough for the fee: `phi <= 0.2 * sigma * sqrt(window)`. Else the place of the price in its band is
  known beforehand, and to move it inside costs next to nothing: `REACHES` says how far the cap falls;
- the part of the depth that may be the attacker's own (`own_share`) is left out: he withdraws it, or earns its fees;
- no outcome is less likely than 1%, and no bucket of a range is narrower than the `sd` of the formula. The lister takes
  none under 4%, so `sd` is 4% at most there, however far the reading wanders.

(500 in place of 35 is where a push decided at the beginning of the window stops paying. One who looks on adds 24% to a
bet at even odds there, and 61% if he can sell what he bought elsewhere.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

from core.agent.book import BPS, MIN_BUCKET_BPS
from core.feeds.uniswap import Pool
from core.feeds.uniswap.pool import FEE_ONE
from core.feeds.uniswap.ticks import MAX_SQRT_PRICE, MIN_SQRT_PRICE, sqrt_price_at

MOVES: Final = (0.005, 0.01, 0.05, 0.2)
REACH_TICKS: Final = 25_000
"""How far to both sides liquidity is looked at: prices between a twelfth and twelve times the present one."""
THIN: Final = 3
"""Readings are good from a third of the reference liquidity on."""
FLOOR: Final = Fraction(1, THIN)
"""Of its reference liquidity; a reading with less in harmonic mean over the window is no good."""
SAFE_SHARE: Final = 0.5
"""Of the depth that is taken to be the attacker's own unless we know better."""

FULL_REACH: Final = 0.2
FULL_FEE_BPS: Final = 200
FACTOR: Final = 35.0  # where bets pay FULL_FEE_BPS at least
LOW_FEE_FACTOR: Final = 30.0  # where they pay less, 175 at the least
REACHES: Final = ((FULL_REACH, 1.0), (0.3, 0.4), (0.4, 0.2), (0.6, 0.08))
"""Up to which part of what the price wanders over the window the fee band may hold, for which part of the factor.
Beyond the last: none."""
NARROWEST: Final = math.log(1 + MIN_BUCKET_BPS / BPS)  # bucket that the lister takes, on the scale of the log price
SECONDS_PER_YEAR: Final = 365.25 * 86_400


@dataclass(frozen=True, slots=True)
class PricedPool:
    """A pool of a feed and what a unit of each of its tokens is worth in dollars, before any push."""

    name: str
    pool: Pool
    usd0: float
    usd1: float

    @property
    def phi(self) -> float:
        return self.pool.fee_pips / FEE_ONE

    def lost(self, amount0: int, amount1: int) -> float:
        """Return the dollars that swaps left in the pool and with its providers: positive amounts came in."""
        return amount0 * self.usd0 + amount1 * self.usd1

    def depth(self) -> float:
        """D1: the dollars that move the price by 1%, in the direction that takes fewer."""
        return min(self._through(0.01), self._through(-0.01))

    def _through(self, move: float) -> float:
        swapped = self.pool.copy().swap_to(moved(self.pool.sqrt_price, move))
        into = swapped.amount0 * self.usd0 if swapped.amount0 > 0 else swapped.amount1 * self.usd1
        return into * (1 - self.phi)

    # ---------------------------------------------------------------- Pushes

    def unopposed(self, move: float) -> float:
        """Return what a push of the log price costs without arbitrage: it stays, and comes back at the end."""
        pool = self.pool.copy()
        there = pool.swap_to(moved(pool.sqrt_price, move))
        back = pool.swap_to(self.pool.sqrt_price)
        kept = self.lost(there.amount0, there.amount1)
        return min(kept, self.lost(there.amount0 + back.amount0, there.amount1 + back.amount1))

    def cheapest_unopposed(self, move: float) -> float:
        return min(self.unopposed(move), self.unopposed(-move))

    # ---------------------------------------------------------------- Pushing the liquidity out of range

    def push_out(self, window: int, own_share: float = 0.0) -> PushOut | None:
        """Return the cheapest way to make a reading worthless by pushing the price to where there is hardly any
        liquidity, for an attacker who withdraws his own share of it first.

        None: there is enough of it everywhere, so only its other providers could.
        """
        others = 1 - Fraction(own_share)
        if others < FLOOR:
            return PushOut(self.pool.tick, 1, 0.0)  # withdrawing his own is enough
        usual = 1 / (others * max(1, self.pool.liquidity))
        bar = 1 / (FLOOR * max(1, self.pool.liquidity))
        ways = []
        for tick, liquidity in stretches(self.pool):
            slower = 1 / (others * max(1, liquidity)) - usual
            if slower <= 0:
                continue
            seconds = max(1, math.floor(window * (bar - usual) / slower) + 1)
            if seconds > window:
                continue
            move = 2 * math.log(sqrt_price_at(tick) / self.pool.sqrt_price)
            ways.append(PushOut(tick, seconds, self.unopposed(move) * float(others)))
        return min(ways, key=lambda way: way.cost, default=None)


@dataclass(frozen=True, slots=True)
class PushOut:
    """Where the liquidity ends, how long the price has to stay there, and what that costs without arbitrage."""

    tick: int
    seconds: int
    cost: float


def moved(sqrt_price: int, move: float) -> int:
    """Return a price after a move of its logarithm, inside what a pool can have."""
    after = int(sqrt_price * math.exp(move / 2))
    return min(max(after, MIN_SQRT_PRICE + 1), MAX_SQRT_PRICE - 1)


def stretches(pool: Pool) -> list[tuple[int, int]]:
    """Return where the liquidity in range changes, on both sides of the price and within reach: the nearest tick of
    each stretch, and how much there is from it on."""
    edges: list[tuple[int, int]] = []
    liquidity = pool.liquidity
    for tick in (each for each in pool.initialized if each > pool.tick):
        liquidity += pool.ticks[tick].net
        edges.append((tick, liquidity))
    liquidity = pool.liquidity
    for tick in (each for each in reversed(pool.initialized) if each <= pool.tick):
        liquidity -= pool.ticks[tick].net
        edges.append((tick - 1, liquidity))
    return [(tick, there) for tick, there in edges if abs(tick - pool.tick) <= REACH_TICKS]


# ---------------------------------------------------------------- The cap


@dataclass(frozen=True, slots=True)
class Cap:
    """How many dollars may stand on all unsettled markets of a feed together, and of what that is made."""

    dollars: float
    by_pushes: float
    by_push_out: float | None
    sd: float  # of the reading, or the narrowest bucket where that is less
    reach: float
    factor: float
    resistance: float  # phi * D1, over all pools, without the attacker's own

    @property
    def window_is_long_enough(self) -> bool:
        return self.reach <= FULL_REACH


def cap_factor(reach: float, fee_bps: int = FULL_FEE_BPS) -> float:
    """The factor of the cap: less where bets pay less of a fee, and where the window is short for the pools' fee."""
    full = FACTOR if fee_bps >= FULL_FEE_BPS else LOW_FEE_FACTOR
    return full * next((part for most, part in REACHES if reach <= most), 0.0)


def feed_cap(
    sources: Sequence[PricedPool],
    sigma: float,
    window: int,
    own_share: float = SAFE_SHARE,
    fee_bps: int = FULL_FEE_BPS,
) -> Cap:
    """`sigma`: of the log price, per square root of a second. Over several pools in a row the cheapest mixture of
    pushes counts, so their resistances add like those of wires side by side, and their fee bands add up."""
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
    """Return the shortest window, in whole minutes, that is long enough for the fees."""
    seconds = (sum(each.phi for each in sources) / (FULL_REACH * sigma)) ** 2
    return math.ceil(seconds / 60) * 60


def sigma_of(means: Sequence[float], seconds: int) -> float:
    """The volatility, per square root of a second, from means of the log price over spans of `seconds` that follow each
    other: for a price that wanders, neighbouring means differ by sigma * sqrt(2 / 3 * seconds)."""
    steps = [after - before for before, after in pairwise(means)]
    if len(steps) < 2:
        raise ValueError("A volatility needs three spans at least.")
    return math.sqrt(sum(step * step for step in steps) / len(steps) * 3 / (2 * seconds))

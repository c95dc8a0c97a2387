"""What it costs to move the price of a Uniswap v3 pool, in floating point.

Tick i is the price 1.0001 ** i. Prices are square roots of token1 per token0; amounts are token units.
`tests/integration/test_uniswap_swaps.py` checks that the amounts agree with the published contracts to nine digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

MIN_TICK: Final = -887_272
MAX_TICK: Final = 887_272
Q96: Final = 2**96
"""Contracts give square-root prices times this."""
FEE_ONE: Final = 10**6
"""Fees are millionths: 3,000 is 0.3%."""
LOG_TICK: Final = math.log(1.0001)


def sqrt_price_at(tick: int) -> float:
    return math.exp(tick * LOG_TICK / 2)


def tick_at(sqrt_price: float) -> int:
    """Return the highest tick whose price is not above `sqrt_price`."""
    return math.floor(2 * math.log(sqrt_price) / LOG_TICK)


class Stretch(NamedTuple):
    """A range of ticks with constant liquidity."""

    lower: int
    upper: int
    liquidity: int


@dataclass(frozen=True)
class Pool:
    """A Uniswap v3 pool. `liquidity` is the liquidity in range at `tick`. `net` has, for each initialized tick, the
    liquidity that starts there or, if negative, ends there."""

    fee_pips: int
    sqrt_price: float
    tick: int
    liquidity: int
    net: Mapping[int, int]

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Return all stretches, in ascending order of price."""
        liquidity = self.liquidity - sum(net for tick, net in self.net.items() if tick <= self.tick)
        stretches, lower = [], MIN_TICK
        for tick in sorted(self.net):
            stretches.append(Stretch(lower, tick, liquidity))
            lower, liquidity = tick, liquidity + self.net[tick]
        return (*stretches, Stretch(lower, MAX_TICK, liquidity))

    def swap(self, start: float, end: float) -> tuple[float, float]:
        """Return the amounts of token0 and token1 in a swap that moves the price from `start` to `end`. Positive
        amounts go into the pool, fee included; negative ones come out."""
        low, high = min(start, end), max(start, end)
        amount0 = amount1 = 0.0
        for stretch in self.stretches:
            from_, to = max(low, sqrt_price_at(stretch.lower)), min(high, sqrt_price_at(stretch.upper))
            if from_ < to:
                amount0 += stretch.liquidity * (to - from_) / (from_ * to)
                amount1 += stretch.liquidity * (to - from_)
        with_fee = FEE_ONE / (FEE_ONE - self.fee_pips)
        return (-amount0, amount1 * with_fee) if end > start else (amount0 * with_fee, -amount1)

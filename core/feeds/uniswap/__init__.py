"""A Uniswap v3 pool in exact integers, to compute what moving its price costs.

Written from the protocol's published description; `tests/integration/test_uniswap_mirror.py` checks that it equals the
published contracts to the unit. Prices are square roots of token1 per token0 as Q64.96 integers, ticks are powers of
1.0001, amounts are token units, fees are millionths.

- `ticks`: conversion between ticks and prices.
- `pool`: the pool and its swaps.
"""

from core.feeds.uniswap.pool import Pool, SwapResult
from core.feeds.uniswap.ticks import MAX_TICK, MIN_TICK, sqrt_price_at, tick_at

__all__ = [
    "MAX_TICK",
    "MIN_TICK",
    "Pool",
    "SwapResult",
    "sqrt_price_at",
    "tick_at",
]

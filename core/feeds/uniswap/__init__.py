"""A Uniswap v3 pool in exact integers: what it costs to bring its price elsewhere, without a chain.

Written from the protocol's published description; equal to the unit to the published contracts, which
`tests/integration/test_uniswap_mirror.py` holds it to. Prices are square roots of token1 per token0 as Q64.96 integers,
ticks are powers of 1.0001, amounts are token units, fees are millionths. Nothing here does I/O.

- `ticks`: from a tick to its price and back.
- `pool`: the pool itself, whose price a swap moves.
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

"""A Uniswap v3 pool in exact integers: what a swap moves and costs, without a chain.

Written from the protocol's published description; equal to the unit to the published contracts, which
`tests/integration/test_uniswap_mirror.py` holds it to. Prices are square roots of token1 per token0 as Q64.96 integers,
ticks are powers of 1.0001, amounts are token units, fees are millionths. Nothing here does I/O.

- `ticks`: from a tick to its price and back.
- `prices`: what a stretch of constant liquidity takes in and gives out.
- `pool`: the pool itself, which swaps, takes and returns liquidity.
"""

from core.feeds.uniswap.pool import Pool, PoolError, SwapResult
from core.feeds.uniswap.ticks import MAX_TICK, MIN_TICK, sqrt_price_at, tick_at

__all__ = [
    "MAX_TICK",
    "MIN_TICK",
    "Pool",
    "PoolError",
    "SwapResult",
    "sqrt_price_at",
    "tick_at",
]

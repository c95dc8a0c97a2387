"""A pool feed as a deployment file has it, for tests without a chain."""

from __future__ import annotations

from typing import Any

from core.contracts.feeds import PoolFeed, PoolSource


def pool_feed(**changes: Any) -> PoolFeed:
    """Return a feed of BNKR over two pools, with a window of half an hour and a reading a minute."""
    made = PoolFeed(
        kind="pool",
        key="BNKR/market_cap",
        address="0x" + "01" * 20,
        memory_seconds=1_860,
        max_age_seconds=3_600,
        pot_cap_units=10**9,
        feed_cap_units=64 * 10**9,
        token="0x" + "02" * 20,
        token_decimals=18,
        quote="0x" + "03" * 20,
        supply=10**29,
        pools=(
            PoolSource(address="0x" + "04" * 20, name="Uniswap v3 BNKR/WETH 1%", reference_liquidity=10**20),
            PoolSource(address="0x" + "05" * 20, name="Uniswap v3 WETH/USDC 0.05%", reference_liquidity=10**18),
        ),
        window_seconds=1_800,
        step_seconds=60,
        max_quiet_seconds=7_200,
    )
    return PoolFeed.model_validate(made.model_dump() | changes)

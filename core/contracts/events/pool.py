"""What a pool with the oracle of Uniswap v3 says when it changes. PancakeSwap's swaps carry two numbers more.

These logs are not followed: they are read where a pool has forgotten what its observations were.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from core.contracts.events.layout import by_topic, layout, num


class Initialized(msgspec.Struct, frozen=True, gc=False):
    tick: int


class Swapped(msgspec.Struct, frozen=True, gc=False):
    """The pool after a swap; `liquidity` is what is in range."""

    liquidity: int
    tick: int


class LiquidityMoved(msgspec.Struct, frozen=True, gc=False):
    """Liquidity put between two ticks, or taken away: then `liquidity` is below zero."""

    lower: int
    upper: int
    liquidity: int


PoolChange: TypeAlias = Initialized | Swapped | LiquidityMoved


def _initialized(_t: bytes, d: bytes) -> Initialized:
    return Initialized(num(d[32:64], signed=True))


def _swapped(_t: bytes, d: bytes) -> Swapped:
    return Swapped(num(d[96:128]), num(d[128:160], signed=True))


def _minted(t: bytes, d: bytes) -> LiquidityMoved:
    return LiquidityMoved(num(t[64:96], signed=True), num(t[96:128], signed=True), num(d[32:64]))


def _burned(t: bytes, d: bytes) -> LiquidityMoved:
    return LiquidityMoved(num(t[64:96], signed=True), num(t[96:128], signed=True), -num(d[:32]))


_SWAP = (
    "address indexed sender, address indexed recipient, int256 amount0, int256 amount1, uint160 sqrtPriceX96,"
    " uint128 liquidity, int24 tick"
)

POOL_EVENTS = by_topic(
    layout("Initialize(uint160 sqrtPriceX96, int24 tick)", _initialized),
    layout(f"Swap({_SWAP})", _swapped),
    layout(f"Swap({_SWAP}, uint128 protocolFeesToken0, uint128 protocolFeesToken1)", _swapped),
    layout(
        "Mint(address sender, address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount,"
        " uint256 amount0, uint256 amount1)",
        _minted,
    ),
    layout(
        "Burn(address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount, uint256 amount0,"
        " uint256 amount1)",
        _burned,
    ),
)

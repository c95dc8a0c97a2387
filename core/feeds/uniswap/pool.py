"""A pool: its price, the liquidity at each tick, and swaps to a target price.

All rounding is against the trader, as in the protocol: amounts in are rounded up, amounts out down.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from core.feeds.uniswap.ticks import MAX_TICK, MIN_TICK, Q96, sqrt_price_at, tick_at

FEE_ONE = 10**6
"""Fees are millionths: 3,000 is 0.3%."""

_WORD = 256  # initialized ticks are searched one word of the bitmap at a time; each word is a separate step


class SwapResult(NamedTuple):
    """The amounts of a swap from the pool's view: positive in (with fees), negative out."""

    amount0: int
    amount1: int


@dataclass
class Tick:
    """The liquidity that starts or ends at a tick."""

    gross: int = 0
    net: int = 0  # added when the price crosses it upwards


@dataclass
class Pool:
    """A Uniswap v3 pool. `initialized` are the ticks where liquidity starts or ends, in order."""

    fee_pips: int
    spacing: int
    sqrt_price: int
    tick: int
    liquidity: int = 0  # in range
    ticks: dict[int, Tick] = field(default_factory=dict)
    initialized: list[int] = field(default_factory=list)

    def copy(self) -> Self:
        ticks = {at: replace(one) for at, one in self.ticks.items()}
        return replace(self, ticks=ticks, initialized=list(self.initialized))

    def swap_to(self, sqrt_price: int) -> SwapResult:
        """Swap until the price reaches `sqrt_price`."""
        down = sqrt_price < self.sqrt_price
        into, out = (amount0_between, amount1_between) if down else (amount1_between, amount0_between)
        amount_in = amount_out = 0
        while self.sqrt_price != sqrt_price:
            edge, initialized = self._next_edge(down)
            edge = min(max(edge, MIN_TICK), MAX_TICK)
            edge_price = sqrt_price_at(edge)
            reached = max(edge_price, sqrt_price) if down else min(edge_price, sqrt_price)
            amount = into(self.sqrt_price, reached, self.liquidity, up=True)
            amount_in += amount + divide_up(amount * self.fee_pips, FEE_ONE - self.fee_pips)
            amount_out += out(self.sqrt_price, reached, self.liquidity, up=False)
            self._move_to(reached, edge, edge_price, initialized=initialized, down=down)
        return SwapResult(amount_in, -amount_out) if down else SwapResult(-amount_out, amount_in)

    def _move_to(self, reached: int, edge: int, edge_price: int, *, initialized: bool, down: bool) -> None:
        """Set the price; at an initialized tick, update the liquidity."""
        moved, self.sqrt_price = reached != self.sqrt_price, reached
        if reached == edge_price:
            if initialized:
                net = self.ticks[edge].net
                self.liquidity += -net if down else net
            self.tick = edge - 1 if down else edge
        elif moved:
            self.tick = tick_at(reached)

    def _next_edge(self, down: bool) -> tuple[int, bool]:
        """Return the next initialized tick in the swap's direction, or the end of the bitmap's word, and which it
        is."""
        place = self.tick // self.spacing
        if down:
            end = place // _WORD * _WORD * self.spacing
            position = bisect_right(self.initialized, self.tick) - 1
            if position >= 0 and self.initialized[position] >= end:
                return self.initialized[position], True
            return end, False
        end = ((place + 1) // _WORD * _WORD + _WORD - 1) * self.spacing
        position = bisect_right(self.initialized, (place + 1) * self.spacing - 1)
        if position < len(self.initialized) and self.initialized[position] <= end:
            return self.initialized[position], True
        return end, False


def divide_up(a: int, b: int) -> int:
    return -(-a // b)


def amount0_between(a: int, b: int, liquidity: int, *, up: bool) -> int:
    """Return the amount of token0 between two prices."""
    low, high = (a, b) if a <= b else (b, a)
    numerator = (liquidity << 96) * (high - low)
    if up:
        return divide_up(divide_up(numerator, high), low)
    return numerator // high // low


def amount1_between(a: int, b: int, liquidity: int, *, up: bool) -> int:
    """Return the amount of token1 between two prices."""
    product = liquidity * abs(b - a)
    return divide_up(product, Q96) if up else product // Q96

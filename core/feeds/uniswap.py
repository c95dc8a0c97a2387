"""A Uniswap v3 pool in exact integers, to compute what moving its price costs.

Written from the protocol's published description; `tests/integration/test_uniswap_mirror.py` checks that it equals the
published contracts to the unit. Tick i is the price 1.0001 ** i. Prices are square roots of token1 per token0 as Q64.96
integers, rounded up; amounts are token units, fees are millionths. All rounding of amounts is against the trader, as in
the protocol: amounts in are rounded up, amounts out down."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final, NamedTuple, Self

MIN_TICK: Final = -887_272
MAX_TICK: Final = 887_272
Q96: Final = 2**96
_ONE: Final = 2**128


def _powers() -> tuple[int, ...]:
    """Return sqrt(1.0001) ** -(2**k) with 128 binary digits, rounded to nearest, for each bit k of a tick."""
    exact = Context(prec=120, rounding=ROUND_HALF_EVEN)
    power, made = exact.divide(1, exact.sqrt(Decimal("1.0001"))), []
    for _ in range(20):
        made.append(int(exact.multiply(power, _ONE).to_integral_value(ROUND_HALF_EVEN)))
        power = exact.multiply(power, power)
    return tuple(made)


_POWERS: Final = _powers()


@lru_cache(maxsize=65_536)
def sqrt_price_at(tick: int) -> int:
    """Return the square-root price of a tick, rounded up from the protocol's 128-bit product."""
    if not MIN_TICK <= tick <= MAX_TICK:
        raise ValueError(f"A tick must be from {MIN_TICK} to {MAX_TICK}, not {tick}.")
    ratio, digits = _ONE, abs(tick)
    for k, power in enumerate(_POWERS):
        if digits >> k & 1:
            ratio = ratio * power >> 128  # down
    if tick > 0:
        ratio = (2**256 - 1) // ratio  # down
    return -(-ratio >> 32)  # up


MIN_SQRT_PRICE: Final = sqrt_price_at(MIN_TICK)
MAX_SQRT_PRICE: Final = sqrt_price_at(MAX_TICK)
_LOG_STEP: Final = math.log(1.0001) / 2


def tick_at(sqrt_price: int) -> int:
    """Return the highest tick whose price is not above `sqrt_price`."""
    if not MIN_SQRT_PRICE <= sqrt_price < MAX_SQRT_PRICE:
        raise ValueError(f"{sqrt_price} is outside the price range of a pool.")
    tick = math.floor((math.log(sqrt_price) - 96 * math.log(2)) / _LOG_STEP)  # off by one at most
    tick = min(max(tick, MIN_TICK), MAX_TICK - 1)
    while sqrt_price_at(tick) > sqrt_price:
        tick -= 1
    while sqrt_price_at(tick + 1) <= sqrt_price:
        tick += 1
    return tick


FEE_ONE = 10**6
"""Fees are millionths: 3,000 is 0.3%."""

_WORD = 256  # initialized ticks are searched one word of the bitmap at a time; each word is a separate step


class SwapResult(NamedTuple):
    """The amounts of a swap as the pool sees them: positive amounts went in (fees included), negative ones went out."""

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
        """Return the next initialized tick in the swap's direction, or the end of the bitmap's word if that comes
        first. Also return whether the tick is initialized."""
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

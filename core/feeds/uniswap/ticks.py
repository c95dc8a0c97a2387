"""Ticks and square-root prices: tick i is the price 1.0001 ** i, stored as sqrt(price) * 2**96, rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final

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
    """Return the highest tick whose price is not above this one."""
    if not MIN_SQRT_PRICE <= sqrt_price < MAX_SQRT_PRICE:
        raise ValueError(f"{sqrt_price} is outside the price range of a pool.")
    tick = math.floor((math.log(sqrt_price) - 96 * math.log(2)) / _LOG_STEP)  # off by one at most
    tick = min(max(tick, MIN_TICK), MAX_TICK - 1)
    while sqrt_price_at(tick) > sqrt_price:
        tick -= 1
    while sqrt_price_at(tick + 1) <= sqrt_price:
        tick += 1
    return tick

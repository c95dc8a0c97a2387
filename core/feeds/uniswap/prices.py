"""One stretch of constant liquidity: what a move of the price takes in and gives out, and how far an amount moves it.

Every rounding is against the trader, as the protocol has it: in goes up, out goes down, and the price never passes the
one it was to reach.
"""

from __future__ import annotations

from typing import NamedTuple

from core.feeds.uniswap.ticks import Q96

FEE_ONE = 10**6
"""Fees are millionths: 3,000 is 0.3%."""

_MAX_UINT256 = 2**256 - 1
_MAX_UINT160 = 2**160 - 1


def divide_up(a: int, b: int) -> int:
    return -(-a // b)


def amount0_between(a: int, b: int, liquidity: int, *, up: bool) -> int:
    """Token0 between two prices."""
    low, high = (a, b) if a <= b else (b, a)
    numerator = (liquidity << 96) * (high - low)
    if up:
        return divide_up(divide_up(numerator, high), low)
    return numerator // high // low


def amount1_between(a: int, b: int, liquidity: int, *, up: bool) -> int:
    """Token1 between two prices."""
    product = liquidity * abs(b - a)
    return divide_up(product, Q96) if up else product // Q96


def price_after_token0(price: int, liquidity: int, amount: int, *, added: bool) -> int:
    """The price, rounded up, once token0 was added to the pool or taken out of it."""
    if amount == 0:
        return price
    numerator, product = liquidity << 96, amount * price
    if not added:
        if product > _MAX_UINT256 or numerator <= product:
            raise ArithmeticError("the pool does not hold that much token0")
        return divide_up(numerator * price, numerator - product)
    if product <= _MAX_UINT256 and numerator + product <= _MAX_UINT256:
        return divide_up(numerator * price, numerator + product)
    return divide_up(numerator, numerator // price + amount)  # where the product would leave 256 bits


def price_after_token1(price: int, liquidity: int, amount: int, *, added: bool) -> int:
    """The price, rounded down, once token1 was added to the pool or taken out of it."""
    if added:
        after = price + (amount << 96) // liquidity
        if after > _MAX_UINT160:
            raise ArithmeticError("the price would leave 160 bits")
        return after
    quotient = divide_up(amount << 96, liquidity)
    if quotient >= price:
        raise ArithmeticError("the pool does not hold that much token1")
    return price - quotient


class SwapStep(NamedTuple):
    """What a swap does within one stretch of constant liquidity."""

    price: int
    taken: int  # without the fee
    given: int
    fee: int


def swap_step(price: int, target: int, liquidity: int, remaining: int, fee_pips: int) -> SwapStep:
    """From `price` towards `target`, with `remaining` to put in (positive) or to get out (negative)."""
    down, exact_in = price >= target, remaining >= 0
    into, out = (amount0_between, amount1_between) if down else (amount1_between, amount0_between)
    if exact_in:
        usable = remaining * (FEE_ONE - fee_pips) // FEE_ONE  # down
        taken = into(price, target, liquidity, up=True)
        if usable >= taken:
            after = target
        else:
            moved = price_after_token0 if down else price_after_token1
            after = moved(price, liquidity, usable, added=True)
    else:
        given = out(price, target, liquidity, up=False)
        if -remaining >= given:
            after = target
        else:
            moved = price_after_token1 if down else price_after_token0
            after = moved(price, liquidity, -remaining, added=False)
    reached = after == target
    if not (reached and exact_in):
        taken = into(price, after, liquidity, up=True)
    if not (reached and not exact_in):
        given = out(price, after, liquidity, up=False)
    if not exact_in:
        given = min(given, -remaining)
    if exact_in and not reached:
        return SwapStep(after, taken, given, remaining - taken)  # what is left of the input is the fee
    return SwapStep(after, taken, given, divide_up(taken * fee_pips, FEE_ONE - fee_pips))

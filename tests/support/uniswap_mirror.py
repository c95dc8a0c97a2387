"""A Uniswap v3 pool in exact integers, without a chain: positions, swaps of an amount in or out, and their limits.

Written from the protocol's published description; equal to the unit to the published contracts, which
`tests/integration/test_uniswap_mirror.py` holds it to. It holds no balances and no shares of fees: what a
caller has to pay or is paid is what its functions return.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple, Self

from core.feeds.uniswap import (
    FEE_ONE,
    MAX_SQRT_PRICE,
    MAX_TICK,
    MIN_SQRT_PRICE,
    MIN_TICK,
    Pool,
    SwapResult,
    Tick,
    amount0_between,
    amount1_between,
    divide_up,
    sqrt_price_at,
    tick_at,
)

_MAX_UINT256 = 2**256 - 1
_MAX_UINT160 = 2**160 - 1


class PoolError(ValueError):
    """The refusal of a pool's contract, by the text it reverts with."""


class MirrorPool(Pool):
    """A pool that providers and traders change as they change the contract."""

    @classmethod
    def at(cls, sqrt_price: int, fee_pips: int, spacing: int) -> Self:
        """Return a new pool at its first price."""
        return cls(fee_pips, spacing, sqrt_price, tick_at(sqrt_price))

    # ---------------------------------------------------------------- Providers

    def mint(self, lower: int, upper: int, liquidity: int) -> tuple[int, int]:
        """Adds liquidity between two ticks; what it costs, rounded up."""
        if liquidity <= 0:
            raise PoolError("A position is made of some liquidity.")
        return self._change(lower, upper, liquidity)

    def burn(self, lower: int, upper: int, liquidity: int) -> tuple[int, int]:
        """Takes liquidity out; what it gives back, rounded down. Whose it was is the caller's to know."""
        amount0, amount1 = self._change(lower, upper, -liquidity)
        return -amount0, -amount1

    def _change(self, lower: int, upper: int, liquidity: int) -> tuple[int, int]:
        if not MIN_TICK <= lower < upper <= MAX_TICK or lower % self.spacing or upper % self.spacing:
            raise PoolError(f"A position lies between two multiples of {self.spacing}, not {lower} and {upper}.")
        for at, sign in ((lower, 1), (upper, -1)):
            self._set_tick(at, liquidity, sign * liquidity)
        low, high, up = sqrt_price_at(lower), sqrt_price_at(upper), liquidity > 0
        size, sign = abs(liquidity), 1 if up else -1
        if self.tick < lower:
            return sign * amount0_between(low, high, size, up=up), 0
        if self.tick >= upper:
            return 0, sign * amount1_between(low, high, size, up=up)
        self.liquidity += liquidity
        return (
            sign * amount0_between(self.sqrt_price, high, size, up=up),
            sign * amount1_between(low, self.sqrt_price, size, up=up),
        )

    def _set_tick(self, at: int, gross: int, net: int) -> None:
        there = self.ticks.get(at)
        if there is None:
            there = self.ticks[at] = Tick()
            insort(self.initialized, at)
        there.gross += gross
        there.net += net
        if there.gross < 0:
            raise PoolError(f"There is less liquidity at tick {at} than is taken out.")
        if there.gross == 0:
            del self.ticks[at]
            self.initialized.remove(at)

    # ---------------------------------------------------------------- Swaps

    def swap(self, zero_for_one: bool, amount: int, limit: int | None = None) -> SwapResult:
        """Token0 for token1 (the price falls) or the other way round; `amount` to put in, or negative to get out.

        `limit`: the price at which it stops, wherever the amount stands.
        """
        if limit is None:
            limit = MIN_SQRT_PRICE + 1 if zero_for_one else MAX_SQRT_PRICE - 1
        if amount == 0:
            raise PoolError("A swap is of some amount.")
        inside = MIN_SQRT_PRICE < limit < self.sqrt_price if zero_for_one else self.sqrt_price < limit < MAX_SQRT_PRICE
        if not inside:
            raise PoolError(f"The limit {limit} is not between the price and the end of all prices.")
        remaining, other = amount, 0
        while remaining != 0 and self.sqrt_price != limit:
            edge, initialized = self._next_edge(zero_for_one)
            edge = min(max(edge, MIN_TICK), MAX_TICK)
            edge_price = sqrt_price_at(edge)
            target = max(edge_price, limit) if zero_for_one else min(edge_price, limit)
            step = swap_step(self.sqrt_price, target, self.liquidity, remaining, self.fee_pips)
            if amount > 0:
                remaining -= step.taken + step.fee
                other -= step.given
            else:
                remaining += step.given
                other += step.taken + step.fee
            self._move_to(step.price, edge, edge_price, initialized=initialized, down=zero_for_one)
        swapped = amount - remaining
        first_is_0 = zero_for_one == (amount > 0)
        return SwapResult(swapped, other) if first_is_0 else SwapResult(other, swapped)

    def swap_to(self, sqrt_price: int) -> SwapResult:
        if sqrt_price == self.sqrt_price:
            return SwapResult(0, 0)
        return self.swap(sqrt_price < self.sqrt_price, 2**255 - 1, sqrt_price)


def price_after_token0(price: int, liquidity: int, amount: int, *, added: bool) -> int:
    """Return the price, rounded up, after token0 was added to the pool or removed."""
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
    """Return the price, rounded down, after token1 was added to the pool or removed."""
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
    """Swap from `price` towards `target`, with `remaining` to put in (positive) or to get out (negative)."""
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

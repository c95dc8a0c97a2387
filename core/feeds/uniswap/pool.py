"""The pool: its price and the liquidity at each tick, changed by swaps and by providers.

It holds no balances and knows nobody's share of fees: what a caller has to pay or is paid is what its functions return.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from core.feeds.uniswap.prices import amount0_between, amount1_between, swap_step
from core.feeds.uniswap.ticks import MAX_SQRT_PRICE, MAX_TICK, MIN_SQRT_PRICE, MIN_TICK, sqrt_price_at, tick_at

_WORD = 256  # initialized ticks are looked for within one word of the bitmap at a time; each word is a step of its own


class PoolError(ValueError):
    """The refusal of a pool's contract, by the text it reverts with."""


class SwapResult(NamedTuple):
    """What a swap moved, as the pool sees it: positive came in, negative went out; fees are in what came in."""

    amount0: int
    amount1: int


@dataclass
class Tick:
    """The liquidity that begins or ends at a tick."""

    gross: int = 0
    net: int = 0  # added when the price rises over it


@dataclass
class Pool:
    """A Uniswap v3 pool. `initialized` are the ticks where some liquidity begins or ends, in order."""

    fee_pips: int
    spacing: int
    sqrt_price: int
    tick: int
    liquidity: int = 0  # in range
    ticks: dict[int, Tick] = field(default_factory=dict)
    initialized: list[int] = field(default_factory=list)

    @classmethod
    def at(cls, sqrt_price: int, fee_pips: int, spacing: int) -> Self:
        """A new pool at its first price."""
        return cls(fee_pips, spacing, sqrt_price, tick_at(sqrt_price))

    def copy(self) -> Self:
        ticks = {at: replace(one) for at, one in self.ticks.items()}
        return replace(self, ticks=ticks, initialized=list(self.initialized))

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
            start = self.sqrt_price
            edge, initialized = self._next_edge(zero_for_one)
            edge = min(max(edge, MIN_TICK), MAX_TICK)
            edge_price = sqrt_price_at(edge)
            target = max(edge_price, limit) if zero_for_one else min(edge_price, limit)
            step = swap_step(start, target, self.liquidity, remaining, self.fee_pips)
            self.sqrt_price = step.price
            if amount > 0:
                remaining -= step.taken + step.fee
                other -= step.given
            else:
                remaining += step.given
                other += step.taken + step.fee
            if self.sqrt_price == edge_price:
                if initialized:
                    net = self.ticks[edge].net
                    self.liquidity += -net if zero_for_one else net
                self.tick = edge - 1 if zero_for_one else edge
            elif self.sqrt_price != start:
                self.tick = tick_at(self.sqrt_price)
        swapped = amount - remaining
        first_is_0 = zero_for_one == (amount > 0)
        return SwapResult(swapped, other) if first_is_0 else SwapResult(other, swapped)

    def swap_to(self, sqrt_price: int) -> SwapResult:
        """As much as it takes to bring the price there."""
        if sqrt_price == self.sqrt_price:
            return SwapResult(0, 0)
        return self.swap(sqrt_price < self.sqrt_price, 2**255 - 1, sqrt_price)

    def _next_edge(self, zero_for_one: bool) -> tuple[int, bool]:
        """The next tick with liquidity in the direction of the swap, or the end of the bitmap's word."""
        place = self.tick // self.spacing
        if zero_for_one:
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

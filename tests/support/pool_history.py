"""A pool's mirror with the pool's own history: a ring of observations, one for each block at most, from which `observe`
answers.

Cumulatives grow for ever and wrap round as on chain: ticks as int56, seconds per liquidity as uint160.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from core.feeds.uniswap import Pool, SwapResult

MAX_CARDINALITY = 65_535


class TooOld(ValueError):
    """The refusal of a moment before everything the pool remembers: the contract's "OLD"."""


class Cumulatives(NamedTuple):
    """What `observe` answers for one moment."""

    tick: int
    seconds_per_liquidity: int  # Q128


class Observation(NamedTuple):
    """What the pool wrote down in one block, before that block changed anything."""

    at: int
    tick: int  # cumulative
    seconds_per_liquidity: int  # cumulative, Q128

    def carried(self, at: int, tick: int, liquidity: int) -> Observation:
        """The observation at a later moment, if nothing changed in between."""
        seconds = at - self.at
        added = (seconds << 128) // max(1, liquidity)  # down
        return Observation(at, _int56(self.tick + tick * seconds), (self.seconds_per_liquidity + added) % 2**160)


def _int56(value: int) -> int:
    return (value + 2**55) % 2**56 - 2**55


@dataclass
class ObservationRing:
    """The ring of a pool's observations. `cardinality_next` is how many places it has room for once it comes round."""

    ring: list[Observation | None]
    index: int = 0
    cardinality_next: int = 1

    @classmethod
    def since(cls, at: int) -> ObservationRing:
        """A pool's history at its beginning."""
        return cls([Observation(at, 0, 0)])

    @property
    def cardinality(self) -> int:
        return len(self.ring)

    @property
    def newest(self) -> Observation:
        newest = self.ring[self.index]
        assert newest is not None
        return newest

    @property
    def oldest(self) -> Observation:
        return self.ring[(self.index + 1) % self.cardinality] or self._first()

    def _first(self) -> Observation:
        first = self.ring[0]
        assert first is not None
        return first

    def grow(self, cardinality: int) -> None:
        """Makes room; the ring uses it when it next comes round."""
        if not 0 < cardinality <= MAX_CARDINALITY:
            raise ValueError(f"A ring holds 1 to {MAX_CARDINALITY} observations, not {cardinality}.")
        self.cardinality_next = max(self.cardinality_next, cardinality)

    def write(self, at: int, tick: int, liquidity: int) -> None:
        """What a swap over a tick or a change of the liquidity in range writes; once in a block."""
        last = self.newest
        if last.at == at:
            return
        if self.cardinality_next > self.cardinality and self.index == self.cardinality - 1:
            self.ring += [None] * (self.cardinality_next - self.cardinality)
        self.index = (self.index + 1) % self.cardinality
        self.ring[self.index] = last.carried(at, tick, liquidity)

    def observe(self, at: int, now: int, tick: int, liquidity: int) -> Cumulatives:
        """The cumulatives at a moment that is not after `now`; between two observations as on a line."""
        if at > now:
            raise ValueError(f"{at} is after {now}.")
        newest = self.newest
        if at >= newest.at:
            there = newest.carried(at, tick, liquidity)
            return Cumulatives(there.tick, there.seconds_per_liquidity)
        if at < self.oldest.at:
            raise TooOld(f"The pool's oldest observation is of {self.oldest.at}, after {at}.")
        before, after = self._around(at)
        if at == before.at:
            return Cumulatives(before.tick, before.seconds_per_liquidity)
        seconds, part = after.at - before.at, at - before.at
        moved = _int56(after.tick - before.tick)
        pace = abs(moved) // seconds * (1 if moved >= 0 else -1)  # towards zero, as on chain
        slowness = (after.seconds_per_liquidity - before.seconds_per_liquidity) % 2**160
        return Cumulatives(
            _int56(before.tick + pace * part),
            (before.seconds_per_liquidity + slowness * part // seconds) % 2**160,  # down
        )

    def _around(self, at: int) -> tuple[Observation, Observation]:
        """The last observation at or before a moment, and the one after it."""
        low, high = 0, self.cardinality - 1  # how many places before the newest
        while low < high:
            middle = (low + high) // 2
            there = self.ring[self.index - middle]
            if there is None or there.at <= at:
                high = middle
            else:
                low = middle + 1
        before, after = self.ring[self.index - low], self.ring[self.index - low + 1]
        assert before is not None
        assert after is not None
        return before, after

    def copy(self) -> ObservationRing:
        return ObservationRing(list(self.ring), self.index, self.cardinality_next)


@dataclass
class RememberingPool(Pool):
    """A pool's mirror that keeps its history. `now`: the present block's time, to be set before the pool is changed."""

    now: int = 0
    history: ObservationRing = field(default_factory=lambda: ObservationRing.since(0))

    @classmethod
    def begun(cls, sqrt_price: int, fee_pips: int, spacing: int, now: int) -> Self:
        """A new pool at its first price, which begins to remember."""
        return replace(cls.at(sqrt_price, fee_pips, spacing), now=now, history=ObservationRing.since(now))

    def copy(self) -> Self:
        return replace(super().copy(), history=self.history.copy())

    def observe(self, at: int, now: int) -> Cumulatives:
        return self.history.observe(at, now, self.tick, self.liquidity)

    def grow(self, cardinality: int) -> None:
        self.history.grow(cardinality)

    def _change(self, lower: int, upper: int, liquidity: int) -> tuple[int, int]:
        before = self.liquidity
        amounts = super()._change(lower, upper, liquidity)
        if lower <= self.tick < upper:
            self.history.write(self.now, self.tick, before)
        return amounts

    def swap(self, zero_for_one: bool, amount: int, limit: int | None = None) -> SwapResult:
        before_tick, before_liquidity = self.tick, self.liquidity
        swapped = super().swap(zero_for_one, amount, limit)
        if self.tick != before_tick:
            self.history.write(self.now, before_tick, before_liquidity)
        return swapped

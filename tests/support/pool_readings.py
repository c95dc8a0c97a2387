"""Models of a Uniswap v3 pool's history, and of the readings that a PoolFeed records and selects."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.agent.fixed import sdiv
from core.contracts.statuses import Quality
from scripts._verify.pools import PoolFeedTerms, PoolWindow, compute_reading, wrapped


@dataclass(frozen=True, slots=True)
class Observation:
    time: int
    tick_cumulative: int  # int56, wraps
    seconds_per_liquidity: int  # times 2**128; uint160, wraps

    def next(self, time: int, tick: int, liquidity: int) -> Observation:
        """Return the next observation, made at `time`. `tick` and `liquidity` are the pool's values since this
        observation."""
        passed = time - self.time
        per_liquidity = (passed << 128) // (liquidity or 1)  # rounded down
        return Observation(
            time,
            wrapped(self.tick_cumulative + tick * passed, 56),
            (self.seconds_per_liquidity + per_liquidity) % 2**160,
        )


@dataclass(frozen=True, slots=True)
class MeasuredWindow(PoolWindow):
    """A pool's history over a window, with all that the contract logs about it."""

    quiet: int  # seconds from the last observation to the window's end

    def liquidity(self, length: int) -> int:
        """Return the harmonic mean liquidity over the window, rounded down."""
        return min((length << 128) // self.seconds_per_liquidity, 2**128 - 1)


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool's state: the observations in its ring, oldest first, and its tick and liquidity since the last
    observation."""

    observations: Sequence[Observation]
    tick: int
    liquidity: int

    def covers(self, end: int, length: int) -> bool:
        """Return whether the ring reaches back to the start of the window that ends at `end`."""
        return self.observations[0].time + length <= end

    def window(self, end: int, length: int) -> MeasuredWindow:
        """Return the window of `length` seconds that ends at `end`. `end` must be before the pool's present block."""
        end_cumulative, at_end, last = self._at(end)
        start_cumulative, at_start, _ = self._at(end - length)
        return MeasuredWindow(start_cumulative, end_cumulative, (at_end - at_start) % 2**160, end - last)

    def _at(self, time: int) -> tuple[int, int, int]:
        """Return the pool's cumulative values at a moment, and the time of the last observation at or before that
        moment."""
        ring = self.observations
        position = bisect_right(ring, time, key=lambda each: each.time) - 1
        before = ring[position]
        if position + 1 == len(ring):
            tick, per_second = self.tick, 2**128 // (self.liquidity or 1)  # rounded down
        else:
            after = ring[position + 1]
            length = after.time - before.time
            tick = sdiv(wrapped(after.tick_cumulative - before.tick_cumulative, 56), length)  # without a remainder
            per_second = (after.seconds_per_liquidity - before.seconds_per_liquidity) % 2**160 // length  # down
        passed = time - before.time
        return (
            wrapped(before.tick_cumulative + tick * passed, 56),
            (before.seconds_per_liquidity + per_second * passed) % 2**160,
            before.time,
        )


@dataclass(frozen=True, slots=True)
class PoolReading:
    """A reading as the feed records it. `answer` is 0 unless the quality is good."""

    quality: Quality
    answer: int
    windows: tuple[MeasuredWindow, ...]


def measure(terms: PoolFeedTerms, pools: Sequence[PoolState], time: int) -> PoolReading | None:
    """Return the reading that `record` would record for a grid time before the pools' present block. Return None if
    there would be no reading."""
    if not all(pool.covers(time, terms.window) for pool in pools):
        return None
    windows = tuple(pool.window(time, terms.window) for pool in pools)
    return PoolReading(*compute_reading(terms, windows), windows)


class NotRecordedYet(LookupError):
    """The refusal to name a reading that can still be recorded: no older one stands in for it."""

    def __init__(self, grid_time: int) -> None:
        super().__init__(f"the reading of {grid_time} is not recorded yet, and its pools still have it")
        self.grid_time = grid_time


def reading_at(
    step: int, recorded: Mapping[int, int], oldest_available: int, time: int, max_age: int
) -> tuple[int, int] | None:
    """Return the grid time that counts at a past moment, and its recorded answer; None if there is none."""
    newest = time - time % step
    for grid_time in range(newest, max(time - max_age, step) - 1, -step):
        if grid_time in recorded:
            return grid_time, recorded[grid_time]
        if grid_time == newest and newest >= oldest_available:
            raise NotRecordedYet(newest)
    return None

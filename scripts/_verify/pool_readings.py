"""Computes a PoolFeed's readings with the integer arithmetic of `contracts/feeds/PoolFeed.sol` and `PoolHistory.sol`.

A reading is a function of the pools' history over one window. `PoolState` has that history, observation by observation.
A caller that has the window's sums of ticks from another source (`observe`, or swap logs) only needs `market_cap`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.agent.fixed import WAD, ln_wad, sdiv
from core.contracts.statuses import Quality
from core.feeds.cost import THIN

LN_TICK: Final = 99_995_000_333_308_335_333_166_680_951_131  # ln 1.0001, times 1e36
LN_MAX_ANSWER: Final = 66_542_129_333_754_749_704  # ln 2**96, times 1e18
MAX_ANSWER: Final = 2**96 - 1
DECIMALS: Final = 8


def _wrapped(value: int, bits: int) -> int:
    """Wrap a value to a signed integer of this many bits, as unchecked arithmetic does."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation in a pool's ring."""

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
            _wrapped(self.tick_cumulative + tick * passed, 56),
            (self.seconds_per_liquidity + per_liquidity) % 2**160,
        )


@dataclass(frozen=True, slots=True)
class PoolWindow:
    """A pool's history over a window."""

    start_cumulative: int
    end_cumulative: int
    seconds_per_liquidity: int  # over the window, times 2**128
    quiet: int  # seconds from the last observation to the window's end

    @property
    def ticks(self) -> int:
        """Return the sum of the tick over the window's seconds. The pool's cumulative values may have wrapped
        around."""
        return _wrapped(self.end_cumulative - self.start_cumulative, 56)

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

    def window(self, end: int, length: int) -> PoolWindow:
        """Return the window of `length` seconds that ends at `end`. `end` must be before the pool's present block."""
        end_cumulative, at_end, last = self._at(end)
        start_cumulative, at_start, _ = self._at(end - length)
        return PoolWindow(start_cumulative, end_cumulative, (at_end - at_start) % 2**160, end - last)

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
            tick = sdiv(_wrapped(after.tick_cumulative - before.tick_cumulative, 56), length)  # without a remainder
            per_second = (after.seconds_per_liquidity - before.seconds_per_liquidity) % 2**160 // length  # down
        passed = time - before.time
        return (
            _wrapped(before.tick_cumulative + tick * passed, 56),
            (before.seconds_per_liquidity + per_second * passed) % 2**160,
            before.time,
        )


@dataclass(frozen=True, slots=True)
class SourceTerms:
    """A pool of a feed, with the fields of IPoolFeed.Source."""

    base_is_token0: bool
    reference_liquidity: int


@dataclass(frozen=True, slots=True)
class PoolFeedTerms:
    """A PoolFeed's constructor arguments."""

    sources: tuple[SourceTerms, ...]
    supply: int  # in the token's smallest units
    quote_decimals: int
    window: int
    step: int


@dataclass(frozen=True, slots=True)
class PoolReading:
    """A reading as the feed records it. `answer` is 0 unless the reading's quality is good."""

    quality: Quality
    answer: int
    windows: tuple[PoolWindow, ...]


def exp_wad(x: int) -> int:
    """Compute Solady's `FixedPointMathLib.expWad`, an approximation of e**(x / 1e18) * 1e18, rounded down."""
    if x <= -41446531673892822313:
        return 0
    if x >= 135305999368893231589:
        raise ValueError(f"exp_wad takes less than 135.3e18, not {x}")
    # Convert x to base 2 and remove the powers of two, which are applied at the end.
    x = sdiv(x << 78, 5**18)
    k = (sdiv(x << 96, 54916777467707473351141471128) + 2**95) >> 96
    x -= k * 54916777467707473351141471128

    # A (6, 7)-term rational approximation.
    y = x + 1346386616545796478920950773328
    y = (y * x >> 96) + 57155421227552351082224309758442
    p = y + x - 94201549194550492254356042504812
    p = (p * y >> 96) + 28719021644029726153956944680412240
    p = p * x + (4385272521454847904659076985693276 << 96)
    q = x - 2855989394907223263936484059900
    q = (q * x >> 96) + 50020603652535783019961831881945
    q = (q * x >> 96) - 533845033583426703283633433725380
    q = (q * x >> 96) + 3604857256930695427073651918091429
    q = (q * x >> 96) - 14423608567350463180887372962807573
    q = (q * x >> 96) + 26449188498355588339934803723976023
    return (sdiv(p, q) * 3822833074963236453042738258902158003155416615667) >> (195 - k)


def market_cap(terms: PoolFeedTerms, ticks: Sequence[int]) -> int | None:
    """Return the feed's answer for the sources' sums of ticks over the window. Return None if the answer is out of
    range.

    A tick is a log price rounded down, so half a tick is added for each source. The exponent is rounded towards zero,
    the answer down.
    """
    half_ticks = 0
    for source, each in zip(terms.sources, ticks, strict=True):
        log_price = 2 * each + terms.window
        half_ticks += log_price if source.base_is_token0 else -log_price
    supply = ln_wad(terms.supply * 10 ** (DECIMALS - terms.quote_decimals) * WAD)
    exponent = sdiv(half_ticks * LN_TICK, 2 * terms.window * WAD) + supply
    if exponent >= LN_MAX_ANSWER:
        return None
    answer = exp_wad(exponent) // WAD
    return answer if 0 < answer <= MAX_ANSWER else None


def quality_of(terms: PoolFeedTerms, source: SourceTerms, window: PoolWindow) -> Quality:
    if window.seconds_per_liquidity > (THIN * terms.window << 128) // source.reference_liquidity:
        return Quality.THIN
    return Quality.GOOD


def measure(terms: PoolFeedTerms, pools: Sequence[PoolState], time: int) -> PoolReading | None:
    """Return the reading that `record` would record for a grid time before the pools' present block. Return None if
    there would be no reading."""
    if time % terms.step:
        raise ValueError(f"{time} is not a multiple of the feed's step of {terms.step} seconds")
    if not all(pool.covers(time, terms.window) for pool in pools):
        return None
    windows = tuple(pool.window(time, terms.window) for pool in pools)
    for source, window in zip(terms.sources, windows, strict=True):
        quality = quality_of(terms, source, window)
        if quality is not Quality.GOOD:
            return PoolReading(quality, 0, windows)
    answer = market_cap(terms, [window.ticks for window in windows])
    if answer is None:
        return PoolReading(Quality.OUT_OF_RANGE, 0, windows)
    return PoolReading(Quality.GOOD, answer, windows)

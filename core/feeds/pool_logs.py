"""A pool's observations made again from its logs, for moments that its ring has forgotten.

A pool writes one observation at most for a time, before the first thing in it that changes its tick or the liquidity in
range. Where a run of logs begins nothing is known of what was before, so what is made of it begins with the first
observation that is certain; its accumulators count from there, and only differences of them mean anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.contracts.events.pool import Initialized, LiquidityMoved, PoolChange, Swapped
from core.feeds.pool_feed import Observation, PoolState


def pool_from_logs(changes: Iterable[tuple[int, PoolChange]]) -> PoolState | None:
    """The pool after all of these, each with the time of its block, in chain order and without a gap. None while they
    do not even tell one observation."""
    rebuilding = _Rebuilding()
    for time, change in changes:
        rebuilding.apply(time, change)
    return rebuilding.pool


class _Rebuilding:
    """A pool while its logs are read. `since`: the time of the log that first told its state."""

    def __init__(self) -> None:
        self._tick: int | None = None
        self._liquidity = 0
        self._since = 0
        self._observations: list[Observation] = []

    @property
    def pool(self) -> PoolState | None:
        if self._tick is None or not self._observations:
            return None
        return PoolState(self._observations, self._tick, self._liquidity)

    def apply(self, time: int, change: PoolChange) -> None:
        match change:
            case Initialized():
                self._tick, self._liquidity, self._since = change.tick, 0, time
                self._observations = [Observation(time, 0, 0)]
            case Swapped():
                self._swap(time, change)
            case LiquidityMoved():
                self._move(time, change)

    def _swap(self, time: int, change: Swapped) -> None:
        if self._tick is None:
            self._since = time
        elif change.tick != self._tick:
            self._write(time)
        self._tick, self._liquidity = change.tick, change.liquidity

    def _move(self, time: int, change: LiquidityMoved) -> None:
        if self._tick is None or not change.lower <= self._tick < change.upper or not change.liquidity:
            return
        self._write(time)
        self._liquidity += change.liquidity

    def _write(self, time: int) -> None:
        """What has stood until now, unless this time has its observation already."""
        assert self._tick is not None
        if self._observations:
            last = self._observations[-1]
            if time > last.time:
                self._observations.append(last.then(time, self._tick, self._liquidity))
        elif time > self._since:
            # Of the log that first told the state nobody knows whether it wrote one, so another of its time may not.
            self._observations.append(Observation(time, 0, 0))

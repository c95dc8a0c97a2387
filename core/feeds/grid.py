"""The pool feed readings that markets need, and which of them are not recorded yet.

A pool feed has a reading for each multiple of its step. A market is decided by the reading at its end and, for a
direction market, the one at its start. A market that may resolve early counts only readings that are recorded promptly,
so every reading in its interval must be recorded in time. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from core.contracts.statuses import MarketKind

MAX_RING = 65_535
"""The most observations a pool can store."""
PROMPT_SECONDS = 3_600
"""How soon after its time a reading must be recorded to count as a crossing, as in IPoolFeed."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The readings that a market needs: those at single moments, and all those in an interval. A reading in the
    interval counts only if it is recorded at most `within` seconds after its time."""

    moments: tuple[int, ...]
    interval: tuple[int, int] | None = None
    within: int | None = None

    @classmethod
    def from_market(cls, market: Any) -> Needs:
        """Derive the needs from a market's DecidingTerms or from its row in `agent_market`."""
        if market.early_resolvable:
            return cls((market.ends_at,), (market.early_from, market.ends_at), PROMPT_SECONDS)
        if MarketKind(market.kind) is MarketKind.DIRECTION:
            return cls((market.start_at, market.ends_at))
        return cls((market.ends_at,))

    def times(self, step: int, oldest: int, before: int) -> Iterator[int]:
        """Yield the needed grid times in [oldest, before), in no particular order and possibly repeated."""
        for moment in self.moments:
            if oldest <= (at := grid_time(moment, step)) < before:
                yield at
        if self.interval is not None:
            first, last = self.interval
            if self.within is not None:
                oldest = max(oldest, before - self.within)
            # A reading before the interval cannot be a crossing.
            yield from range(next_grid_time(max(first, oldest), step), min(last, before - 1) + 1, step)


def grid_time(moment: int, step: int) -> int:
    """Return the time of the reading that counts at a moment. It is the last multiple of `step` at or before the
    moment."""
    return moment - moment % step


def next_grid_time(moment: int, step: int) -> int:
    """Return the first multiple of `step` that is not before `moment`."""
    return -(-moment // step) * step


def missing(needs: Iterable[Needs], recorded: Set[int], step: int, oldest: int, before: int) -> list[int]:
    """Return the needed grid times in [oldest, before) that are not recorded. The times are in ascending order, because
    the oldest readings expire first."""
    return sorted({at for need in needs for at in need.times(step, oldest, before)} - recorded)


def batches(times: list[int], size: int, most: int) -> list[tuple[int, ...]]:
    """Split the times into groups of `size`, one group for each transaction. Return only the first `most` groups."""
    walk = iter(times)
    return [batch for _ in range(most) if (batch := tuple(islice(walk, size)))]


def ring_for(outage: int, window: int, step: int) -> int:
    """Return how many observations a pool must store so that readings can still be recorded after `outage` seconds
    without any. Assume one observation a second, the maximum rate."""
    return min(outage + window + step + 1, MAX_RING)

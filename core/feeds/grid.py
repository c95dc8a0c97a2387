"""Which readings of a pool feed a market is decided by, and which of them have still to be recorded. Pure.

A pool feed has a reading for each multiple of its step. A market is decided by the reading at its end and, if it asks
for a direction, the one at its start. One that settles as soon as a target is reached counts only readings that were
recorded promptly, so it wants each of its interval while it still counts. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

from core.contracts.statuses import MarketKind

MAX_RING = 65_535
"""Observations a pool can remember, at most."""
PROMPT_SECONDS = 3_600
"""A reading counts as a crossing if it was recorded at most so many seconds after its time, as IPoolFeed has it."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a market needs of its feed: single moments, and an interval of which it counts every reading; with `within`
    only readings that are recorded at most so many seconds after their time."""

    moments: tuple[int, ...]
    interval: tuple[int, int] | None = None
    within: int | None = None

    @classmethod
    def from_market(cls, market: Any) -> Needs:
        """Return the needs of a market: of its DecidingTerms, or of its row of `agent_market`."""
        if market.early_resolvable:
            return cls((market.ends_at,), (market.early_from, market.ends_at), PROMPT_SECONDS)
        if MarketKind(market.kind) is MarketKind.DIRECTION:
            return cls((market.start_at, market.ends_at))
        return cls((market.ends_at,))

    def times(self, step: int, oldest: int, before: int) -> Iterator[int]:
        """The grid times it needs from `oldest` on that are over at `before`, in no order; some may come twice."""
        for moment in self.moments:
            if oldest <= (at := grid_time(moment, step)) < before:
                yield at
        if self.interval is not None:
            first, last = self.interval
            if self.within is not None:
                oldest = max(oldest, before - self.within)
            # A reading before the interval cannot be a crossing in it.
            yield from range(next_grid_time(max(first, oldest), step), min(last, before - 1) + 1, step)


def grid_time(moment: int, step: int) -> int:
    """Return the last multiple of `step` at or before a moment: the reading that counts then."""
    return moment - moment % step


def next_grid_time(moment: int, step: int) -> int:
    """Return the first multiple of `step` at or after a moment."""
    return -(-moment // step) * step


def missing(needs: Iterable[Needs], recorded: Set[int], step: int, oldest: int, before: int) -> list[int]:
    """Return the grid times from `oldest` on that are needed, over at `before` and not recorded; oldest first, since
    those are forgotten first."""
    return sorted({at for need in needs for at in need.times(step, oldest, before)} - recorded)


def batches(times: list[int], size: int, most: int) -> list[tuple[int, ...]]:
    """The first of them, in groups for one transaction each."""
    walk = iter(times)
    return [batch for _ in range(most) if (batch := tuple(islice(walk, size)))]


def ring_for(outage: int, window: int, step: int) -> int:
    """Return how many observations a pool must remember so that nothing is forgotten when no reading is recorded for
    `outage` seconds, at one observation a second, the most there can be."""
    return min(outage + window + step + 1, MAX_RING)

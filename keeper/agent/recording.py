"""Which readings of a pool feed are due to be recorded, and what is told of the feed. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from core.contracts.feeds import PoolFeed
from core.feeds.grid import Needs, batches, grid_time, missing

BATCH = 20
"""Readings in one transaction: up to 2.6 million gas with two pools."""
BATCHES = 3
"""Transactions asked for in one run: an outage of twelve hours is made good in two minutes."""
FRESH_SECONDS = 300
"""While markets are listed on a feed, its newest reading is kept about this young: nothing is listed on an old one."""


@dataclass(frozen=True, slots=True)
class RecordingState:
    """What is recorded of a feed and what its pools still tell. `recorded`: grid times from `oldest` on."""

    feed: PoolFeed
    oldest: int  # the first grid time that all its pools can still tell
    recorded: Set[int]
    needs: tuple[Needs, ...]  # of the markets that are open on it
    listed_on: bool = False  # whether new markets are listed on it

    def due(self, now: int) -> list[int]:
        """The grid times that markets are waiting for, oldest first."""
        return missing(self.needs, self.recorded, self.feed.step_seconds, self.oldest, now)

    def lost(self, now: int) -> list[int]:
        """The moments that open markets are decided by and whose reading nobody recorded nor can: the one before, if it
        was recorded and is young enough, stands in."""
        step = self.feed.step_seconds
        gone = {grid_time(moment, step) for need in self.needs for moment in need.moments if moment < now}
        return sorted(at for at in gone - self.recorded if at < self.oldest)

    def to_record(self, now: int, *, every_step_since: int | None) -> list[int]:
        """Everything to record: what is due, one for the next listing, and every step since a moment if so set."""
        extra: list[Needs] = []
        if every_step_since is not None:
            extra.append(Needs((), (every_step_since, now - 1)))
        elif self.listed_on and max(self.recorded, default=0) < now - FRESH_SECONDS:
            extra.append(Needs((now - 1,)))
        return missing((*self.needs, *extra), self.recorded, self.feed.step_seconds, self.oldest, now)


def subject(feed: PoolFeed, at: int) -> str:
    return f"agent:record:{feed.key}:{at}"


def groups(times: Sequence[int]) -> list[tuple[int, ...]]:
    """What one run asks for, a transaction each."""
    return batches(list(times), BATCH, BATCHES)

"""The stock markets in memory, as fresh as the index.

They are stale while the database is away, when the indexer has not heard from a node for a while, and when it stopped
at a contradiction.
"""

from __future__ import annotations

import time
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from api.followed_index import FollowedIndex, Replica
from api.vpm.facts import Venue
from api.vpm.rows import read_venue

PAUSE_SECONDS = 0.1
# A node that was silent for so long, or an index that could not be read for so long, makes every answer stale.
STALE_AFTER_SECONDS = 10


class StockIndex(FollowedIndex[Venue]):
    def __init__(self, url: str, engine: AsyncEngine, chain_id: int, *, replica: bool = False) -> None:
        read = partial(read_venue, chain_id)
        from_replica = Replica(chain_id, _block_of) if replica else None
        super().__init__(
            "stock",
            url,
            engine,
            read,
            pause_seconds=PAUSE_SECONDS,
            is_stale=_is_stale,
            replica=from_replica,
        )

    @property
    def read_at(self) -> int:
        """Our clock's time of the last good read of the chain, through the indexer; 0 before the first."""
        return 0 if self.venue is None else self.venue.head.seen_at


def _is_stale(venue: Venue | None) -> bool:
    if venue is None or venue.head.state == "halted":
        return True
    return time.time() - venue.head.seen_at > STALE_AFTER_SECONDS


def _block_of(venue: Venue) -> int:
    return venue.head.number

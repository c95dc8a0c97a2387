"""The agent markets in memory, as fresh as the index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent.facts import Venue
from api.agent.problems import problem
from api.agent.rows import read_venue
from api.followed_index import FollowedIndex, Replica
from core.pool_words import Told

PAUSE_SECONDS = 0.05


class AgentIndex(FollowedIndex[Venue]):
    def __init__(
        self, url: str, engine: AsyncEngine, chain_id: int, feeds: Mapping[bytes, Told], *, replica: bool = False
    ) -> None:
        read = partial(read_venue, chain_id, feeds)
        from_replica = Replica(chain_id, _block_of) if replica else None
        super().__init__("agent", url, engine, read, pause_seconds=PAUSE_SECONDS, replica=from_replica)

    def required(self) -> Venue:
        """The state as last read; 500 before the first read."""
        if self.venue is None:
            raise problem("internal_error", "The markets could not be read yet; try again shortly.")
        return self.venue

    async def reached(self, block: int, timeout_seconds: float) -> None:
        """Waits until the index holds this block, or until time is up."""
        await self._until(lambda: self.venue is not None and self.venue.head.number >= block, timeout_seconds)


def _block_of(venue: Venue) -> int:
    return venue.head.number

"""The last indexed block of a chain, as each surface's facts hold it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ScalarSelect, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chain.lateness import MAX_LAG_SECONDS, why_head_is_late
from core.db.schema.index import chain_cursor, chain_reorg
from core.hexadecimal import hex_of
from core.stock.vested import Moment

# Blocks come with gaps; the wall clock may run ahead of the head by so much before it is not believed.
CLOCK_SLACK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Head:
    """The last indexed block. `seen_at`: our own clock's time when a node last told what its head is."""

    number: int
    timestamp: int
    seen_at: int
    state: str = "tail"
    lag: int = 0
    """Blocks the node has and the index has not."""
    lag_seconds: int = 0
    """Chain time between the last indexed block and the node's newest."""
    l1_number: int = 0
    """`block.number` as contracts see it."""
    hash: str | None = None
    newest_at: int | None = None
    """Chain time of the node's newest block."""

    @property
    def moment(self) -> Moment:
        """When views are taken."""
        return Moment(self.l1_number, self.timestamp)

    def why_late(self, now: float, *, blocks_are_regular: bool) -> str | None:
        """A sentence when what is known of the chain is too old to bet on, by our own clock; else None. Where blocks
        come regularly, none for a minute means that nothing sent now is mined in time."""
        if self.state == "halted":
            return "The indexer stopped at blocks that contradict each other."
        if now - self.seen_at > MAX_LAG_SECONDS or (self.lag > 0 and self.lag_seconds > MAX_LAG_SECONDS):
            return "The indexer lags."
        # Compared with when a node told of it, not with now: that a node is no longer heard is the other sentence.
        newest_at = self.timestamp if self.newest_at is None else self.newest_at
        return why_head_is_late(newest_at, self.seen_at, blocks_are_regular=blocks_are_regular)


def chain_now(head_timestamp: int) -> int:
    """The chain's clock; between its blocks it runs on with ours, unless the two have nothing to do with each other (a
    warped or stalled chain)."""
    wall = int(time.time())
    return wall if 0 <= wall - head_timestamp <= CLOCK_SLACK_SECONDS else head_timestamp


async def read_cursor(connection: AsyncConnection, chain_id: int, *venue: Column[Any]) -> Any | None:
    """The row of `chain_cursor`, with these columns of a side's venue and `last_reorg`; None while not one block is
    indexed."""
    of_chain = venue[0].table.c.chain_id == chain_cursor.c.chain_id
    query = (
        select(chain_cursor, *venue, last_reorg(chain_id).label("last_reorg"))
        .outerjoin(venue[0].table, of_chain)
        .where(chain_cursor.c.chain_id == chain_id, chain_cursor.c.hash.is_not(None))
    )
    return (await connection.execute(query)).one_or_none()


def last_reorg(chain_id: int) -> ScalarSelect[int]:
    """The id of the last reorganization undone; NULL before the first."""
    return select(func.max(chain_reorg.c.id)).where(chain_reorg.c.chain_id == chain_id).scalar_subquery()


def head_of(row: Any) -> Head:
    """From a row of `chain_cursor`."""
    return Head(
        number=row.number,
        timestamp=row.block_time,
        seen_at=0 if row.head_seen_at is None else int(row.head_seen_at.timestamp()),
        state=row.state,
        lag=max(0, (row.head_number or row.number) - row.number),
        lag_seconds=max(0, (row.head_time or row.block_time) - row.block_time),
        l1_number=row.number if row.l1_block_number is None else row.l1_block_number,
        hash=None if row.hash is None else hex_of(row.hash),
        newest_at=max(row.head_time or row.block_time, row.block_time),
    )

"""The last indexed block of a chain, as all surfaces represent it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ScalarSelect, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chain.heads import MAX_LAG_SECONDS, why_head_is_late
from core.db.schema.index import chain_cursor, chain_reorg
from core.hexadecimal import hex_of
from core.stock.vested import Moment

# Blocks come with gaps: the wall clock is trusted up to this far ahead of the head.
CLOCK_SLACK_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Head:
    """The last indexed block. `seen_at`: when a node last reported the chain's head, by our clock."""

    number: int
    timestamp: int
    seen_at: int
    state: str = "tail"
    lag: int = 0
    """Blocks that the node has and the index lacks."""
    lag_seconds: int = 0
    """Chain time between the last indexed block and the node's newest."""
    l1_number: int = 0
    """`block.number` as contracts see it."""
    hash: str | None = None
    newest_at: int | None = None
    """Chain time of the node's newest block."""

    @property
    def moment(self) -> Moment:
        return Moment(self.l1_number, self.timestamp)

    def why_late(self, now: float, *, blocks_are_regular: bool) -> str | None:
        """Return why the chain's state is too old to bet on, as a sentence, or None if it is recent enough. Ages are by
        our clock. On a chain with regular blocks, a bet sent after a minute without a block would not be mined in
        time."""
        if self.state == "halted":
            return "The indexer stopped at blocks that contradict each other."
        if now - self.seen_at > MAX_LAG_SECONDS or (self.lag > 0 and self.lag_seconds > MAX_LAG_SECONDS):
            return "The indexer lags."
        # Compared with when the node reported it, not with now: a silent node is the case above.
        newest_at = self.timestamp if self.newest_at is None else self.newest_at
        return why_head_is_late(newest_at, self.seen_at, blocks_are_regular=blocks_are_regular)


def chain_now(head_timestamp: int) -> int:
    """Return the wall clock's time. If the chain is warped or stalled, so that the two clocks diverge, return the
    head's timestamp instead."""
    wall = int(time.time())
    return wall if 0 <= wall - head_timestamp <= CLOCK_SLACK_SECONDS else head_timestamp


async def read_cursor(connection: AsyncConnection, chain_id: int, *venue: Column[Any]) -> Any | None:
    """Return the chain's `chain_cursor` row with `last_reorg` and the given columns of the venue. Return None before
    the first block is indexed."""
    of_chain = venue[0].table.c.chain_id == chain_cursor.c.chain_id
    query = (
        select(chain_cursor, *venue, last_reorg(chain_id).label("last_reorg"))
        .outerjoin(venue[0].table, of_chain)
        .where(chain_cursor.c.chain_id == chain_id, chain_cursor.c.hash.is_not(None))
    )
    return (await connection.execute(query)).one_or_none()


def last_reorg(chain_id: int) -> ScalarSelect[int]:
    """Select the id of the chain's last reorganization. The id is NULL before the first one."""
    return select(func.max(chain_reorg.c.id)).where(chain_reorg.c.chain_id == chain_id).scalar_subquery()


def head_of(row: Any) -> Head:
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

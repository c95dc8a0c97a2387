"""Long ended intents: thinned out to what idempotency needs, or, where something else guards it, dropped.

    async with connection.transaction():
        old = await long_ended(connection, chain_id, days=90, limit=500)
        await thin(connection, [each.id for each in old])
        await drop(connection, [each.id for each in old if ...])

A thinned intent keeps its row: its key still answers who asks again, and how it ended can still be read. Gone are its
call data, what it waited for, its signed bytes and its history. Only an intent whose asker can never come back with the
same key may be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class Old:
    """An intent that ended long ago. `is_noop`: our own filler of a nonce, which no caller requested."""

    id: int
    key: str
    is_noop: bool


async def long_ended(connection: Connection, chain_id: int, *, days: int, limit: int) -> list[Old]:
    """The oldest intents that ended more than `days` ago and were not thinned yet, locked for this transaction."""
    rows = await connection.fetch_all(
        "SELECT id, key, lane_group = 'noop' FROM outbox_intent WHERE chain_id = %s "
        "AND state IN ('final', 'failed', 'replaced') AND NOT is_thinned "
        "AND state_at < now() - make_interval(days => %s) ORDER BY state_at LIMIT %s FOR UPDATE SKIP LOCKED",
        (chain_id, days, limit),
    )
    return [Old(*row) for row in rows]


async def thin(connection: Connection, ids: Sequence[int]) -> None:
    """Remove what only following them needed. Inside the caller's transaction, with the rows locked."""
    await connection.execute("SET LOCAL vpm.outbox_retention = 'on'")  # the tables refuse any other removal
    for table in (b"outbox_history", b"outbox_transaction"):
        await connection.execute(b"DELETE FROM " + table + b" WHERE intent_id = ANY(%s)", (list(ids),))
    await connection.execute("SET LOCAL vpm.outbox_retention = 'off'")
    await connection.execute(
        "UPDATE outbox_intent SET data = '', depends_on = NULL, is_thinned = true WHERE id = ANY(%s)", (list(ids),)
    )


async def drop(connection: Connection, ids: Sequence[int]) -> int:
    """Remove thinned intents for good; return how many. One that another waits for stays, and so does the last of each
    lane, whose nonce shows a restored lane where it was."""
    cursor = await connection.execute(
        "DELETE FROM outbox_intent i WHERE i.id = ANY(%s) AND i.is_thinned "
        "AND NOT EXISTS (SELECT FROM outbox_intent o WHERE o.depends_on = i.id) "
        "AND (i.nonce IS NULL OR i.nonce < (SELECT max(o.nonce) FROM outbox_intent o WHERE o.lane_id = i.lane_id))",
        (list(ids),),
    )
    return cursor.rowcount

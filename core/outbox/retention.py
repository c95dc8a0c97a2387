"""Removing old intents: thin them to what idempotency needs, or drop them where something else guarantees it.

    async with connection.transaction():
        old = await long_ended(connection, chain_id, days=90, limit=500)
        await thin(connection, [each.id for each in old])
        await drop(connection, [each.id for each in old if ...])

A thinned intent keeps its row, so that its key still exists and its end can be read. Its call data, dependency, signed
bytes and history are deleted. Only an intent whose key can never be queued again may be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class EndedIntent:
    """An intent that ended long ago. is_noop: it fills a nonce, and no caller requested it."""

    id: int
    key: str
    is_noop: bool


async def long_ended(connection: Connection, chain_id: int, *, days: int, limit: int) -> list[EndedIntent]:
    """Return and lock the oldest intents that ended more than `days` ago and are not thinned yet."""
    rows = await connection.fetch_all(
        "SELECT id, key, lane_group = 'noop' FROM outbox_intent WHERE chain_id = %s "
        "AND state IN ('final', 'failed', 'replaced') AND NOT is_thinned "
        "AND state_at < now() - make_interval(days => %s) ORDER BY state_at LIMIT %s FOR UPDATE SKIP LOCKED",
        (chain_id, days, limit),
    )
    return [EndedIntent(*row) for row in rows]


async def thin(connection: Connection, ids: Sequence[int]) -> None:
    """Delete what only the relayer needed, in the caller's transaction, which has locked the rows."""
    await connection.execute("SET LOCAL vpm.outbox_retention = 'on'")  # the tables refuse any other deletion
    for table in (b"outbox_history", b"outbox_transaction"):
        await connection.execute(b"DELETE FROM " + table + b" WHERE intent_id = ANY(%s)", (list(ids),))
    await connection.execute("SET LOCAL vpm.outbox_retention = 'off'")
    await connection.execute(
        "UPDATE outbox_intent SET data = '', depends_on = NULL, is_thinned = true WHERE id = ANY(%s)", (list(ids),)
    )


async def drop(connection: Connection, ids: Sequence[int]) -> int:
    """Delete thinned intents and return how many. Keep those that others depend on, and the last of each lane: a
    restored lane continues after its nonce."""
    cursor = await connection.execute(
        "DELETE FROM outbox_intent i WHERE i.id = ANY(%s) AND i.is_thinned "
        "AND NOT EXISTS (SELECT FROM outbox_intent o WHERE o.depends_on = i.id) "
        "AND (i.nonce IS NULL OR i.nonce < (SELECT max(o.nonce) FROM outbox_intent o WHERE o.lane_id = i.lane_id))",
        (list(ids),),
    )
    return cursor.rowcount

"""What was asked for, as it stands once the relayer has seen it in a block."""

from __future__ import annotations

from core.db.engine import ConnectionPool

_SIGNED = b"""
WITH lane AS (INSERT INTO outbox_lane (chain_id, address, groups) VALUES (1, %s, '{relay}') RETURNING id)
UPDATE outbox_intent SET state = 'signed', lane_id = lane.id, nonce = 1, tx_hash = %s
FROM lane WHERE outbox_intent.id = %s
"""
_MINED = b"""
UPDATE outbox_intent SET state = 'mined', outcome = 'succeeded', block_number = %s, block_hash = %s, mined_at = now()
WHERE id = %s
"""


async def mined(pool: ConnectionPool, intent_id: int, block: int) -> None:
    """Has a queued intent mined with success, by a lane of its own."""
    async with pool.connection() as connection:
        await connection.execute(_SIGNED, (intent_id.to_bytes(20), bytes(32), intent_id))
        await connection.execute(_MINED, (block, bytes(32), intent_id))

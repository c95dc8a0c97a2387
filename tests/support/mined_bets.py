"""Bets after the relayer, or the token's index, has seen them in a block."""

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

_SPENT = b"""
INSERT INTO token_authorization
    (chain_id, authorizer, nonce, token, state, recipient, value, block_number, log_index, at, tx)
SELECT b.chain_id, b.wallet, b.nonce, b.wallet, n.state, CASE n.state WHEN 'paid' THEN b.wallet END,
    CASE n.state WHEN 'paid' THEN b.amount END, n.block, 1, 1, b.nonce
FROM (%b) AS b (chain_id, wallet, nonce, amount, intent_id), (VALUES (%%s, %%s::bigint)) n (state, block)
WHERE b.intent_id = %%s RETURNING tx
"""


def spent(asked: bytes) -> bytes:
    """Return the statement that records the outcome of an authorization (state, block, intent) for the bets of a
    SELECT: chain_id, wallet, nonce, amount, intent_id."""
    return _SPENT % asked


async def mined(pool: ConnectionPool, intent_id: int, block: int) -> None:
    async with pool.connection() as connection:
        await connection.execute(_SIGNED, (intent_id.to_bytes(20), bytes(32), intent_id))
        await connection.execute(_MINED, (block, bytes(32), intent_id))

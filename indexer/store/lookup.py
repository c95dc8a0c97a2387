"""Questions about the blocks in the tables, and keeping only those that are of use."""

from __future__ import annotations

from core.db.engine import Connection
from indexer.logs import BlockInfo


async def blocks_below(connection: Connection, chain_id: int, top: int, limit: int) -> list[BlockInfo]:
    """Up to `limit` remembered blocks from `top` down."""
    rows = await connection.execute(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number <= %s"
        " ORDER BY number DESC LIMIT %s",
        (chain_id, top, limit),
    )
    return [BlockInfo(*row) for row in await rows.fetchall()]


async def places_of_logs(connection: Connection, chain_id: int, first: int, last: int) -> set[tuple[int, int]]:
    """Block and index of every log in the tables between two blocks."""
    rows = await connection.execute(
        "SELECT block_number, log_index FROM chain_log WHERE chain_id = %s AND block_number BETWEEN %s AND %s",
        (chain_id, first, last),
    )
    return {(number, index) for number, index in await rows.fetchall()}


async def first_block_after(connection: Connection, chain_id: int, number: int) -> BlockInfo | None:
    """The lowest remembered block above `number`."""
    rows = await connection.execute(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number > %s"
        " ORDER BY number LIMIT 1",
        (chain_id, number),
    )
    row = await rows.fetchone()
    return None if row is None else BlockInfo(*row)


async def highest_final(connection: Connection, chain_id: int) -> BlockInfo | None:
    """Return the highest remembered block that no reorganization replaces, where the nodes say what is final."""
    rows = await connection.execute(
        "SELECT b.number, b.hash, b.timestamp, b.l1_block_number FROM chain_cursor c JOIN chain_block b"
        " ON b.chain_id = c.chain_id AND b.number <= least(c.number, c.finalized_number)"
        " WHERE c.chain_id = %s AND c.finalized_number IS NOT NULL ORDER BY b.number DESC LIMIT 1",
        (chain_id,),
    )
    row = await rows.fetchone()
    return None if row is None else BlockInfo(*row)


async def forget_empty_blocks(connection: Connection, chain_id: int, below: int) -> None:
    """Drops blocks below `below` without logs of ours: no reorganization goes back that far. Call it where nobody else
    can be filling one: with the cursor's row locked."""
    await connection.execute(
        "DELETE FROM chain_block b WHERE b.chain_id = %s AND b.number < %s AND NOT EXISTS (SELECT FROM chain_log l"
        " WHERE l.chain_id = b.chain_id AND l.block_number = b.number)",
        (chain_id, below),
    )

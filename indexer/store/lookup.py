"""Queries for stored blocks and logs."""

from __future__ import annotations

from core.db.engine import Connection
from indexer.logs import BlockInfo


async def blocks_below(connection: Connection, chain_id: int, top: int, limit: int) -> list[BlockInfo]:
    """Return up to `limit` stored blocks from `top` down."""
    rows = await connection.fetch_all(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number <= %s"
        " ORDER BY number DESC LIMIT %s",
        (chain_id, top, limit),
    )
    return [BlockInfo(*row) for row in rows]


async def places_of_logs(connection: Connection, chain_id: int, first: int, last: int) -> set[tuple[int, int]]:
    """Return block and index of every stored log between two blocks."""
    rows = await connection.fetch_all(
        "SELECT block_number, log_index FROM chain_log WHERE chain_id = %s AND block_number BETWEEN %s AND %s",
        (chain_id, first, last),
    )
    return {(number, index) for number, index in rows}


async def first_block_after(connection: Connection, chain_id: int, number: int) -> BlockInfo | None:
    """Return the lowest stored block above `number`."""
    row = await connection.fetch_one(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number > %s"
        " ORDER BY number LIMIT 1",
        (chain_id, number),
    )
    return None if row is None else BlockInfo(*row)


async def highest_final(connection: Connection, chain_id: int) -> BlockInfo | None:
    """Return the highest stored block that is final; None if the nodes do not say what is final."""
    row = await connection.fetch_one(
        "SELECT b.number, b.hash, b.timestamp, b.l1_block_number FROM chain_cursor c JOIN chain_block b"
        " ON b.chain_id = c.chain_id AND b.number <= least(c.number, c.finalized_number)"
        " WHERE c.chain_id = %s AND c.finalized_number IS NOT NULL ORDER BY b.number DESC LIMIT 1",
        (chain_id,),
    )
    return None if row is None else BlockInfo(*row)

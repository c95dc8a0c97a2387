"""Stored blocks and logs: queries, and the partitions of `chain_log`.

Each partition holds a range of one chain's blocks, and exists before the cursor reaches it. A full partition is never
written again, so backups copy it once, and it can be moved to other disks.
"""

from __future__ import annotations

from psycopg.sql import SQL, Identifier, Literal

from core.db.engine import Connection
from indexer.fold.rows import BlockInfo


async def blocks_below(connection: Connection, chain_id: int, top: int, limit: int) -> list[BlockInfo]:
    rows = await connection.fetch_all(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number <= %s"
        " ORDER BY number DESC LIMIT %s",
        (chain_id, top, limit),
    )
    return [BlockInfo(*row) for row in rows]


async def places_of_logs(connection: Connection, chain_id: int, first: int, last: int) -> set[tuple[int, int]]:
    """Return the block number and log index of every stored log between two blocks."""
    rows = await connection.fetch_all(
        "SELECT block_number, log_index FROM chain_log WHERE chain_id = %s AND block_number BETWEEN %s AND %s",
        (chain_id, first, last),
    )
    return {(number, index) for number, index in rows}


async def first_block_after(connection: Connection, chain_id: int, number: int) -> BlockInfo | None:
    row = await connection.fetch_one(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number > %s"
        " ORDER BY number LIMIT 1",
        (chain_id, number),
    )
    return None if row is None else BlockInfo(*row)


async def highest_final(connection: Connection, chain_id: int) -> BlockInfo | None:
    """Return the highest stored final block, or None if the nodes do not report finality."""
    row = await connection.fetch_one(
        "SELECT b.number, b.hash, b.timestamp, b.l1_block_number FROM chain_cursor c JOIN chain_block b"
        " ON b.chain_id = c.chain_id AND b.number <= least(c.number, c.finalized_number)"
        " WHERE c.chain_id = %s AND c.finalized_number IS NOT NULL ORDER BY b.number DESC LIMIT 1",
        (chain_id,),
    )
    return None if row is None else BlockInfo(*row)


BLOCKS = 20_000_000
"""Blocks in a range: fifteen months of two-second blocks, two months of quarter-second blocks."""


def range_name(chain_id: int, number: int) -> str:
    return f"chain_log_{chain_id}_{number}"


async def make_ranges(connection: Connection, chain_id: int, first: int, last: int) -> None:
    """Make the partitions for blocks `first` to `last`, and the next one. The caller holds the cursor's lock.

    CREATE TABLE ... PARTITION OF would lock out all readers, and wait for an audit that takes hours. Attaching a table
    does not.
    """
    for number in range(first // BLOCKS, last // BLOCKS + 2):
        name = range_name(chain_id, number)
        if await connection.fetch_value("SELECT to_regclass(%s) IS NOT NULL", (name,)):
            continue
        await connection.execute(
            SQL("CREATE TABLE {} (LIKE chain_log INCLUDING DEFAULTS INCLUDING INDEXES)").format(Identifier(name))
        )
        await connection.execute(
            SQL("ALTER TABLE chain_log ATTACH PARTITION {} FOR VALUES FROM ({}, {}) TO ({}, {})").format(
                Identifier(name),
                Literal(chain_id),
                Literal(number * BLOCKS),
                Literal(chain_id),
                Literal((number + 1) * BLOCKS),
            )
        )


def enters_range(first: int, last: int) -> bool:
    """Return whether a partition begins among blocks `first` to `last`."""
    return (first - 1) // BLOCKS != last // BLOCKS

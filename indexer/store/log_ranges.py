"""The partitions of `chain_log`: each holds a range of one chain's blocks and is made before the cursor reaches it.

A full partition is never written again, so backup tools copy it once, and it can be moved to other disks or vacuumed
separately. The one after the cursor's always exists, so that no new block waits for one to be made.
"""

from __future__ import annotations

from psycopg.sql import SQL, Identifier, Literal

from core.db.engine import Connection

BLOCKS = 20_000_000
"""Blocks in a range: fifteen months of two-second blocks, two months of quarter-second blocks."""


def range_name(chain_id: int, number: int) -> str:
    return f"chain_log_{chain_id}_{number}"


async def make_ranges(connection: Connection, chain_id: int, first: int, last: int) -> None:
    """Make the partitions for blocks `first` to `last`, and the next one. The caller holds the cursor's lock, so no
    other process makes them.

    CREATE TABLE ... PARTITION OF would lock out all readers, and wait for an audit that takes hours; attaching a
    finished table does not.
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
    """Return whether a range begins among blocks `first` to `last`."""
    return (first - 1) // BLOCKS != last // BLOCKS

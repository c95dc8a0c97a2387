"""The partitions of `chain_log`: a range of one chain's blocks each, made before the cursor comes to it.

An index of one that is full is never written again, backup tools copy it once, and a range can be moved to other disks
or vacuumed alone. The one after the cursor's is always there, so that making one is nothing a new block waits for.
"""

from __future__ import annotations

from psycopg.sql import SQL, Identifier, Literal

from core.db.engine import Connection

BLOCKS = 20_000_000
"""In one range: a year and a quarter of blocks of two seconds, two months of a quarter of a second."""


def range_name(chain_id: int, number: int) -> str:
    return f"chain_log_{chain_id}_{number}"


async def make_ranges(connection: Connection, chain_id: int, first: int, last: int) -> None:
    """Make every range of blocks from `first` to `last`, and the next. The caller holds the cursor's lock, so that no
    other process makes them.

    Creating a partition directly locks out all readers of the table, and would wait for an audit of hours; attaching a
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
    """Return whether blocks `first` to `last` hold the beginning of a range."""
    return (first - 1) // BLOCKS != last // BLOCKS

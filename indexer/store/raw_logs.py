"""Writes raw logs into `chain_log`. Rows are packed here, in a quarter of the driver's time: they are half of all rows
that a backfill writes, and their columns are simple.

A row of PostgreSQL's binary COPY is its number of columns, then each value after its size, big-endian; a size of -1
means NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from core.db.engine import Connection
from core.db.schema.index import chain_log
from indexer.logs import LogRecord
from indexer.store.tables import copy_statement

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_HEAD = Struct(">h iq iq ii i32s i20s i")
"""Columns; chain_id, block_number, log_index, tx_hash and address with their sizes; the size of `topics`."""
_size = Struct(">i").pack
AT_ONCE = 200
"""Rows passed to the driver together, about 64 kB: larger pieces are slower."""

assert [column.name for column in chain_log.columns] == [
    "chain_id",
    "block_number",
    "log_index",
    "tx_hash",
    "address",
    "topics",
    "data",
    "entity",
]


async def write_logs(connection: Connection, chain_id: int, logs: Sequence[LogRecord]) -> None:
    """Append logs to the table."""
    if not logs:
        return
    async with connection.cursor() as cursor, cursor.copy(copy_statement(chain_log, chain_log.name)) as copy:
        await copy.write(_SIGNATURE)
        for at in range(0, len(logs), AT_ONCE):
            await copy.write(packed(chain_id, logs[at : at + AT_ONCE]))
        await copy.write(_TRAILER)


def packed(chain_id: int, logs: Sequence[LogRecord]) -> bytes:
    """Return the logs as rows of a binary COPY."""
    head = _HEAD.pack
    parts: list[bytes] = []
    add = parts.append
    for log in logs:
        topics, data, entity = log.topics, log.data, log.entity
        add(head(8, 8, chain_id, 8, log.block, 4, log.index, 32, log.tx, 20, log.address, len(topics)))
        add(topics)
        add(_size(len(data)))
        add(data)
        if entity is None:
            add(_NULL)
        else:
            add(_size(len(entity)))
            add(entity)
    return b"".join(parts)

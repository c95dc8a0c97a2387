"""Raw logs, whose rows the indexer packs itself, are read back as written."""

from __future__ import annotations

import random

from core.db.engine import connect
from core.db.migrate import migrate
from indexer.fold.rows import LogRecord
from indexer.store.cursor import make_ranges
from indexer.store.tables import AT_ONCE, write_logs


async def test_logs_are_read_back_as_written(fresh_database_url: str) -> None:
    migrate(fresh_database_url)
    rng = random.Random(1)
    written = [
        LogRecord(
            2**40 + at // 7,
            at,
            0,
            rng.randbytes(32),
            rng.randbytes(20),
            rng.randbytes(32 * rng.randint(1, 4)),
            rng.randbytes(rng.choice((0, 1, 32, 5_000))),
            rng.choice((None, b"", b"m" + rng.randbytes(8))),
            None,
        )
        for at in range(2 * AT_ONCE + 1)
    ]
    connection = await connect(fresh_database_url)
    async with connection:
        await make_ranges(connection, 8453, 2**40, written[-1].block)
        await write_logs(connection, 8453, written)
        await write_logs(connection, 8453, [])
        rows = await connection.execute(
            "SELECT chain_id, block_number, log_index, tx_hash, address, topics, data, entity FROM chain_log"
            " ORDER BY block_number, log_index"
        )
        found = await rows.fetchall()
    assert found == [
        (8453, log.block, log.index, log.tx, log.address, log.topics, log.data, log.entity) for log in written
    ]

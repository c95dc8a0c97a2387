"""Deletes a chain's projections and refolds them from the raw logs, in one transaction.

Readers see the old rows until the commit. The cursor's row stays locked, so a running indexer waits and then continues.
The agent event log is not a projection and stays unchanged.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, replace

from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import ConnectionPool
from indexer.errors import CursorMoved
from indexer.history import one_ahead
from indexer.sources import Sources
from indexer.store import sums
from indexer.store.cursor import known_feeds
from indexer.store.steps import fold_logs, projections, stored_batches
from indexer.store.tables import begin_writing, clear, use_indexes

_NO_TIMEOUT = b"SET LOCAL statement_timeout = 0"  # on both connections: statements take longer as history grows


@dataclass(frozen=True, slots=True)
class Rebuilt:
    block: int
    logs: int
    seconds: float


async def rebuild(pool: ConnectionPool, sources: Sources) -> Rebuilt:
    """Rebuild a chain with two of the pool's connections: while one writes the rows of a batch of logs, the other reads
    the next batch."""
    started = time.monotonic()
    folded = 0
    async with pool.connection() as connection, pool.connection() as reader, connection.transaction():
        await begin_writing(connection)
        await connection.execute(_NO_TIMEOUT)
        cursor = "SELECT number, summed FROM chain_cursor WHERE chain_id = %s FOR UPDATE"
        row = await connection.fetch_one(cursor, (sources.chain_id,))
        if row is None:
            raise CursorMoved(f"Chain {sources.chain_id} has not been indexed yet, so there is nothing to rebuild.")
        # Feeds that are no longer followed have rounds in the history, too.
        sources = replace(sources, feeds={**await known_feeds(connection, sources.chain_id), **sources.feeds})
        for table in projections(sources):
            await clear(connection, table, sources.chain_id)
        # No logs are added or removed while the cursor's row is locked, so a transaction begun now reads all of them.
        await use_indexes(reader)
        await reader.execute(_NO_TIMEOUT)
        async with aclosing(one_ahead(stored_batches(reader, sources))) as batches:
            async for batch in batches:
                await fold_logs(connection, sources.chain_id, sources.feeds, batch)
                folded += len(batch)
        if row[1]:
            await sums.fill(connection, sources)
        await notify(connection, CHAIN_INDEXED, IndexStep(sources.chain_id, row[0], everything=True))
    return Rebuilt(row[0], folded, time.monotonic() - started)

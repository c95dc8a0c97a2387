"""Audits one chain, page after page, each in its own snapshot of the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from psycopg.types.json import Jsonb

from core.chain import ChainClient
from core.chain.errors import RpcError
from core.db.engine import Connection, ConnectionPool
from indexer.audit import rows, views
from indexer.audit.rows import AuditStage, Comparison, Place, Snapshot, take_snapshot
from indexer.errors import NodeFault
from indexer.sources import Sources

PAGE_TRIES = 3  # a page whose block was replaced is compared again at another block
RETRY_SECONDS = 1.0

_INSERT = """
INSERT INTO chain_audit (chain_id, began_at, first_block, block_number, block_hash, compared, mismatches, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The blocks at which an audit's first and last pages were compared, and its findings."""

    first_block: int
    last_block: int
    comparison: Comparison


def stages() -> list[AuditStage]:
    return rows.stages() + views.stages()


async def audit(
    pool: ConnectionPool,
    client: ChainClient,
    sources: Sources,
    *,
    progress: Callable[[str, Comparison], None] = lambda _stage, _so_far: None,
) -> AuditReport:
    """Compare a chain stage by stage, calling `progress` after each page. Record the result in `chain_audit`."""
    began_at, found, first_block = datetime.now(UTC), Comparison(), None
    async with pool.connection() as connection:
        for stage in stages():
            place, ended = None, False
            while not ended:
                snapshot, place = await _page(connection, client, sources, stage, place, found)
                found, ended = snapshot.comparison, place is None
                first_block = snapshot.number if first_block is None else first_block
                progress(stage.name, found)
        assert first_block is not None
        counted = (found.compared, found.mismatches, Jsonb(found.detail))
        values = (sources.chain_id, began_at, first_block, snapshot.number, snapshot.digest, *counted)
        await connection.execute(_INSERT, values)
        return AuditReport(first_block, snapshot.number, found)


async def _page(
    connection: Connection,
    client: ChainClient,
    sources: Sources,
    stage: AuditStage,
    after: Place | None,
    found: Comparison,
) -> tuple[Snapshot, Place | None]:
    """Compare a page. Return its snapshot, with all findings so far, and the place where the page ended."""
    tries = 0
    while True:
        try:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                snapshot = await take_snapshot(connection, client, sources, replace(found, detail=[*found.detail]))
                return snapshot, await compare_page(stage, snapshot, after)
        except (NodeFault, RpcError):
            tries += 1
            if tries == PAGE_TRIES:
                raise
            await asyncio.sleep(RETRY_SECONDS)


async def compare_page(stage: AuditStage, snapshot: Snapshot, after: Place | None) -> Place | None:
    if stage.only_if_equal and snapshot.comparison.mismatches:
        return None
    return await stage.page(snapshot, after)

"""The raw logs against the chain: a node is asked for every block again, and what it gives must be what is stored.

The rows that single logs make (rounds, measures, authorizations) are folded again from the stored logs of these blocks.
"""

from __future__ import annotations

from contextlib import aclosing

from psycopg.sql import SQL

from core.db.schema.index import chain_block, chain_log
from core.hexadecimal import bytes_of
from indexer.audit.folded import Rows, compare_folded, compare_rows, empty_tables
from indexer.audit.pages import AuditStage, Place, Snapshot
from indexer.backfill import Width, pages
from indexer.errors import ChainMoved
from indexer.fold.shared import APPENDED
from indexer.logs import Page
from indexer.store.raw_logs import write_logs
from indexer.store.steps import refold_rows
from indexer.store.tables import copy_rows

BLOCKS_AT_ONCE = 20_000
# Nothing may be stored outside of the blocks that were read either.
BEFORE_ALL, AFTER_ALL = -1, 2**63 - 1

# Of a page: those that the node's logs are in, and those that the stored ones are in.
_ITS_BLOCKS = SQL(
    "t.chain_id = %b AND t.number IN (SELECT block_number FROM pg_temp.chain_log UNION ALL"
    " SELECT block_number FROM public.chain_log WHERE chain_id = %b AND block_number BETWEEN %b AND %b)"
)
_IN_BLOCKS = SQL("t.chain_id = %b AND t.block_number BETWEEN %b AND %b")


def stages() -> list[AuditStage]:
    return [AuditStage("raw logs", _blocks_page)]


async def _blocks_page(snapshot: Snapshot, after: Place | None) -> Place | None:
    chain_id = snapshot.sources.chain_id
    first = snapshot.sources.start_block if after is None else after[0] + 1
    last = min(snapshot.number, first + BLOCKS_AT_ONCE - 1)
    low = BEFORE_ALL if after is None else first
    async with aclosing(pages(snapshot.fetcher, first, last, Width())) as asked:
        async for page in asked:
            end = page.end.number
            await _compare_page(snapshot, page, low, AFTER_ALL if end == snapshot.number else end)
            low = end + 1
    # What was asked for by number is of the chain that the tables are of, if that is still the node's.
    (header,) = await snapshot.fetcher.node.headers([snapshot.number])
    if header is None or bytes_of(header.hash, 32) != snapshot.digest:
        raise ChainMoved(f"The node replaced block {snapshot.number} while the audit read its chain.")
    low, high = BEFORE_ALL if after is None else first, AFTER_ALL if last == snapshot.number else last
    rows = [Rows(table, _IN_BLOCKS, (chain_id, low, high)) for table in APPENDED]
    problem = await compare_folded(snapshot, rows, refold_rows(snapshot.connection, snapshot.sources, first, last))
    if problem is not None:
        snapshot.comparison.value(chain_log.name, f"{first} to {last}", "fold", problem, "rows")
    return None if last == snapshot.number else [last]


async def _compare_page(snapshot: Snapshot, page: Page, low: int, high: int) -> None:
    """Compare the stored logs between two blocks, and their blocks, with those that the node gave."""
    chain_id, connection = snapshot.sources.chain_id, snapshot.connection
    numbers = {each.block for each in page.logs}
    blocks = [
        (chain_id, each.number, each.hash, each.timestamp, each.l1_number)
        for each in page.blocks
        if each.number in numbers
    ]
    async with empty_tables(connection, (chain_log, chain_block)):
        await write_logs(connection, chain_id, page.logs)
        await copy_rows(connection, chain_block, blocks)
        await compare_rows(snapshot, Rows(chain_log, _IN_BLOCKS, (chain_id, low, high)))
        await compare_rows(snapshot, Rows(chain_block, _ITS_BLOCKS, (chain_id, chain_id, low, high)))

"""Compares raw logs with a node's, and all other rows with a new fold of the logs and new sums.

The new rows are written to temporary tables of the same names, which hide the stored tables. One query for each table
compares the two, so columns added later are compared too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier
from sqlalchemy import Table

from core.db.engine import Connection
from core.db.schema.index import chain_block, chain_log
from core.hexadecimal import bytes_of
from indexer.audit.snapshot import AuditStage, Place, Snapshot
from indexer.errors import ChainMoved
from indexer.fold.rows import Page
from indexer.history import Width, pages
from indexer.store import sums
from indexer.store.steps import fold_stored, projections
from indexer.store.tables import copy_rows, scan_tables, use_indexes, write_logs

BLOCKS_AT_ONCE = 20_000
# Rows outside the blocks that were read are mismatches, too.
BEFORE_ALL, AFTER_ALL = -1, 2**63 - 1

# A page's blocks: those of the node's logs, and those of the stored logs.
_ITS_BLOCKS = SQL(
    "t.chain_id = %b AND t.number IN (SELECT block_number FROM pg_temp.chain_log UNION ALL"
    " SELECT block_number FROM public.chain_log WHERE chain_id = %b AND block_number BETWEEN %b AND %b)"
)
_IN_BLOCKS = SQL("t.chain_id = %b AND t.block_number BETWEEN %b AND %b")


def stages() -> list[AuditStage]:
    return [AuditStage("raw logs", _raw_logs), AuditStage("projections", _projections)]


async def _raw_logs(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Compare the stored logs of a range of blocks with the node's."""
    first = snapshot.sources.start_block if after is None else after[0] + 1
    last = min(snapshot.number, first + BLOCKS_AT_ONCE - 1)
    low = BEFORE_ALL if after is None else first
    async with aclosing(pages(snapshot.fetcher, first, last, Width())) as fetched:
        async for page in fetched:
            end = page.end.number
            await _compare_page(snapshot, page, low, AFTER_ALL if end == snapshot.number else end)
            low = end + 1
    # The logs were fetched by number. They are from the tables' chain if the node still has the snapshot's block.
    (header,) = await snapshot.fetcher.node.headers([snapshot.number])
    if header is None or bytes_of(header.hash, 32) != snapshot.digest:
        raise ChainMoved(f"The node replaced block {snapshot.number} while the audit read its chain.")
    return None if last == snapshot.number else [last]


async def _compare_page(snapshot: Snapshot, page: Page, low: int, high: int) -> None:
    """Compare the stored logs between two blocks, and their blocks, with the node's."""
    chain_id, connection = snapshot.sources.chain_id, snapshot.connection
    numbers = {each.block for each in page.logs}
    blocks = [
        (chain_id, each.number, each.hash, each.timestamp, each.l1_number)
        for each in page.blocks
        if each.number in numbers
    ]
    async with _empty_tables(connection, (chain_log, chain_block)):
        await write_logs(connection, chain_id, page.logs)
        await copy_rows(connection, chain_block, blocks)
        await _compare_rows(snapshot, chain_log, _IN_BLOCKS, (chain_id, low, high))
        await _compare_rows(snapshot, chain_block, _ITS_BLOCKS, (chain_id, chain_id, low, high))


async def _projections(snapshot: Snapshot, _after: Place | None) -> None:
    """Fold all stored logs again, sum the resulting rows, and compare both with the stored ones. There are no sums
    until history has been read."""
    connection, sources = snapshot.connection, snapshot.sources
    summed = b"SELECT summed FROM chain_cursor WHERE chain_id = %s"
    of_sums = sums.tables_of(sources) if await connection.fetch_value(summed, (sources.chain_id,)) else []
    tables = [*projections(sources), *of_sums]
    async with _empty_tables(connection, tables):
        try:
            async with connection.transaction():
                await use_indexes(connection)
                await fold_stored(connection, sources)
                if of_sums:
                    await sums.fill(connection, sources)
        except psycopg.OperationalError:
            raise
        except Exception as error:  # an altered log can make a fold raise anything
            problem = f"{type(error).__name__}: {error}"
            snapshot.comparison.value(chain_log.name, sources.name, "fold", problem, "rows")
            return
        await scan_tables(connection)
        for table in tables:
            if "chain_id" in table.columns:
                await _compare_rows(snapshot, table, SQL("t.chain_id = %b"), (sources.chain_id,))
            else:
                await _compare_rows(snapshot, table, SQL("true"))


@asynccontextmanager
async def _empty_tables(connection: Connection, tables: Sequence[Table]) -> AsyncIterator[None]:
    """Hide the stored tables behind empty temporary ones of the same names, which are dropped at the end. The stored
    tables can still be reached with the prefix `public.`."""
    async with connection.transaction(force_rollback=True):
        # pg_temp is named explicitly so that statements prepared for the stored tables are planned again.
        await connection.execute("SET LOCAL search_path = pg_temp, public")
        for table in tables:
            name = Identifier(table.name)
            await connection.execute(SQL("CREATE TEMPORARY TABLE {} (LIKE public.{})").format(name, name))
            key = SQL(", ").join(Identifier(column.name) for column in table.primary_key.columns)
            await connection.execute(SQL("ALTER TABLE pg_temp.{} ADD PRIMARY KEY ({})").format(name, key))
        yield


async def _compare_rows(snapshot: Snapshot, table: Table, condition: Composable, values: Sequence[Any] = ()) -> None:
    """Compare every column of the stored rows that meet a condition on `t` with the temporary table. A row that exists
    in only one of the two is one mismatch."""
    comparison = snapshot.comparison
    columns = [column.name for column in table.columns]
    key = [column.name for column in table.primary_key.columns]
    (new_rows,) = await snapshot.row(f"SELECT count(*) FROM pg_temp.{table.name}".encode())  # noqa: S608 - our own names
    comparison.compared += new_rows * len(columns)
    async with snapshot.connection.cursor(name="differences") as cursor:
        await cursor.execute(_difference(table, columns, key, condition), values)
        async for ours_there, new_there, *row in cursor:
            ours = {name: _whole(value) for name, value in zip(columns, row, strict=False)}
            new = {name: _whole(value) for name, value in zip(columns, row[len(columns) :], strict=True)}
            its_key = tuple((ours if ours_there else new)[name] for name in key)
            if ours_there and new_there:
                comparison.fields(table.name, its_key, ours, new)
            else:
                comparison.keys(table.name, [its_key] if ours_there else [], [its_key] if new_there else [])


def _whole(value: Any) -> Any:
    """Convert decimals to integers, since all our numeric columns hold whole numbers."""
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value


def _difference(table: Table, columns: Sequence[str], key: Sequence[str], condition: Composable) -> Composed:
    return SQL(
        "SELECT o.{one} IS NOT NULL, n.{one} IS NOT NULL, {ours}, {new}"
        " FROM (SELECT * FROM public.{table} AS t WHERE {condition}) AS o"
        " FULL JOIN pg_temp.{table} AS n ON {same_key} WHERE ({ours}) IS DISTINCT FROM ({new}) ORDER BY {order}"
    ).format(
        one=Identifier(key[0]),
        table=Identifier(table.name),
        condition=condition,
        ours=SQL(", ").join(SQL("o.") + Identifier(name) for name in columns),
        new=SQL(", ").join(SQL("n.") + Identifier(name) for name in columns),
        same_key=SQL(" AND ").join(SQL("o.{0} = n.{0}").format(Identifier(name)) for name in key),
        order=SQL(", ").join(SQL("coalesce(o.{0}, n.{0})").format(Identifier(name)) for name in key),
    )

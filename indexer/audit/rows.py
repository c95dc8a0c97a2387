"""Compares raw logs with a node's, all other rows with a fresh fold of the logs, and stored sums with fresh sums of
these rows.

A stage compares one page of rows at a time. Each page has its own snapshot of the tables, and is compared with the
chain at the snapshot's block. The chain moves on between pages, so rows that have to agree with each other are compared
within one page.

The freshly folded rows are written to temporary tables of the same names, which hide the stored tables. One query for
each table compares the two, so columns added later are compared too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier
from sqlalchemy import Table

from core.chain import ChainClient, Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.db.engine import Connection
from core.db.schema.index import chain_block, chain_log
from core.hexadecimal import bytes_of, hex_of
from core.stock.vested import Moment
from indexer.errors import ChainMoved, NodeFault
from indexer.fetch import Fetcher
from indexer.fold.rows import Page
from indexer.fold.single import APPENDED, authorizations, rounds
from indexer.fold.venues import VENUE_KINDS
from indexer.history import Width, pages
from indexer.node import RpcNode
from indexer.sources import CONTRACT_ROLES, Sources
from indexer.store import sums
from indexer.store.cursor import known_feeds
from indexer.store.steps import PARTS, fold_stored
from indexer.store.tables import copy_rows, scan_tables, use_indexes, write_logs

ABIS = {role: name for name, role in CONTRACT_ROLES.items()} | {Role.TOKEN: "IERC3009"}
MAX_DETAILS = 100  # mismatches described in full; the rest are only counted

Place = list[Any]  # where a page ended; each stage has its own form


@dataclass(slots=True)
class Comparison:
    """An audit's findings. `compared` counts single values, not rows; `block` is the block being compared."""

    compared: int = 0
    mismatches: int = 0
    detail: list[dict[str, str]] = field(default_factory=list)
    block: int = 0

    def fields(self, what: str, key: object, ours: Mapping[str, Any], chain: Mapping[str, Any] | RpcError) -> None:
        """Compare every field of `ours` with the same field of `chain`. A view that reverted is one mismatch; other
        errors are raised."""
        if isinstance(chain, RpcError):
            if chain.kind is not RpcErrorKind.REVERTED:
                raise chain
            self.compared += 1
            self._differs(what, key, "view", "a row", chain.message)
            return
        for name, value in ours.items():
            self.compared += 1
            if chain[name] != value:
                self._differs(what, key, name, value, chain[name])

    def value(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.fields(what, key, {name: ours}, chain if isinstance(chain, RpcError) else {name: chain})

    def row(self, what: str, key: object, *, is_there: bool) -> None:
        """Report a row that is missing or should not exist."""
        self.compared += 1
        self._differs(what, key, "row", *(("there", "missing") if is_there else ("missing", "there")))

    def _differs(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.mismatches += 1
        if len(self.detail) < MAX_DETAILS:
            mismatch = {"what": what, "key": key, "field": name, "ours": ours, "chain": chain, "block": self.block}
            self.detail.append({word: _text(value) for word, value in mismatch.items()})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables as a page's transaction sees them, and the chain at the block of the tables' cursor."""

    connection: Connection
    client: ChainClient
    fetcher: Fetcher
    sources: Sources  # with the feeds whose rounds are in the tables
    contracts: Mapping[Role, Contract]
    number: int
    digest: bytes
    now: Moment  # what contracts see in that block
    comparison: Comparison

    @property
    def block(self) -> str:
        return hex_of(self.digest)

    async def read(self, *calls: Any) -> list[Any]:
        return await self.client.read_many(calls, self.block)

    async def row(self, query: bytes, values: Any = None) -> tuple[Any, ...]:
        """Return the first row of a query that always has one."""
        row = await self.connection.fetch_one(query, values)
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class AuditStage:
    """One kind of comparison. `page` compares the rows after a place, or from the start if the place is None. It
    returns the place where it ended, or None if no rows are left.

    A stage with `only_if_equal` is skipped after a mismatch, because rows that differ from their logs must be rebuilt
    first.
    """

    name: str
    page: Callable[[Snapshot, Place | None], Awaitable[Place | None]]
    only_if_equal: bool = False


async def take_snapshot(
    connection: Connection, client: ChainClient, sources: Sources, comparison: Comparison
) -> Snapshot:
    """Return a snapshot for the caller's transaction. Raise NodeFault if the node lacks the snapshot's block."""
    await connection.execute("SET LOCAL statement_timeout = 0")
    row = await connection.fetch_one(
        "SELECT number, hash, l1_block_number, block_time FROM chain_cursor WHERE chain_id = %s", (sources.chain_id,)
    )
    if row is None or row[1] is None:
        raise NodeFault(f"Chain {sources.chain_id} has not been indexed yet, so there is nothing to audit.")
    number, digest, l1_number, time = row
    comparison.block = number
    sources = replace(sources, feeds=await known_feeds(connection, sources.chain_id))
    addresses = {**sources.contracts} | ({} if sources.token is None else {Role.TOKEN: sources.token})
    contracts = {role: Contract(hex_of(addresses[role]), abi(name)) for role, name in ABIS.items() if role in addresses}
    fetcher, now = Fetcher(RpcNode(client.provider), sources), Moment(l1_number, time)
    snapshot = Snapshot(connection, client, fetcher, sources, contracts, number, digest, now, comparison)
    try:
        header = await client.block(snapshot.block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.BLOCK_NOT_FOUND:
            raise
        header = None
    if header is None:
        raise NodeFault(
            f"The node does not have the indexed block {number} ({snapshot.block}). Let the indexer catch up first."
        )
    return snapshot


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_text(each) for each in value)
    return hex_of(value) if isinstance(value, bytes) else str(value)


# ---------------------------------------------------------------- rows

BLOCKS_AT_ONCE = 20_000
ENTITIES_AT_ONCE = 500
AFTER_ALL_ENTITIES = b"\xff"
# Rows outside the blocks that were read are mismatches, too.
BEFORE_ALL, AFTER_ALL = -1, 2**63 - 1

# A page's blocks: those of the node's logs, and those of the stored logs.
_ITS_BLOCKS = SQL(
    "t.chain_id = %b AND t.number IN (SELECT block_number FROM pg_temp.chain_log UNION ALL"
    " SELECT block_number FROM public.chain_log WHERE chain_id = %b AND block_number BETWEEN %b AND %b)"
)
_IN_BLOCKS = SQL("t.chain_id = %b AND t.block_number BETWEEN %b AND %b")
_NEXT_ENTITIES = b"""
SELECT max(entity), count(*) FROM
(SELECT DISTINCT entity FROM chain_log WHERE chain_id = %s AND entity > %s ORDER BY entity LIMIT %s) AS following
"""


def stages() -> list[AuditStage]:
    return [
        AuditStage("raw logs", _raw_logs),
        AuditStage("projections", _projections),
        AuditStage("sum tables", _sum_tables, only_if_equal=True),
    ]


async def _raw_logs(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Compare the stored logs of a range of blocks with the node's logs."""
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
    """Compare the logs and blocks stored between two block numbers with the node's."""
    chain_id, connection = snapshot.sources.chain_id, snapshot.connection
    numbers = {each.block for each in page.logs}
    blocks = [
        (chain_id, each.number, each.hash, each.timestamp, each.l1_number)
        for each in page.blocks
        if each.number in numbers
    ]
    async with _empty_tables(connection, (chain_log, chain_block, *APPENDED)):
        await write_logs(connection, chain_id, page.logs)
        await copy_rows(connection, chain_block, blocks)
        for write in (
            *rounds(chain_id, page.logs, snapshot.sources.feeds),
            authorizations(chain_id, page.logs),
        ):
            await copy_rows(connection, write.table, write.added)
        for table in (chain_log, *APPENDED):
            await _compare_rows(snapshot, table, _IN_BLOCKS, (chain_id, low, high))
        await _compare_rows(snapshot, chain_block, _ITS_BLOCKS, (chain_id, chain_id, low, high))


async def _projections(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Refold the stored logs of a range of entities, and compare the resulting rows with the stored ones."""
    connection, sources = snapshot.connection, snapshot.sources
    low: bytes = b"" if after is None else after[0]
    high, entities = await snapshot.row(_NEXT_ENTITIES, (sources.chain_id, low, ENTITIES_AT_ONCE))
    if entities < ENTITIES_AT_ONCE:
        high = AFTER_ALL_ENTITIES
    tables = list(_tables_between(sources, low, high))
    async with _empty_tables(connection, [table for table, _, _ in tables]):
        try:
            async with connection.transaction():
                await use_indexes(connection)
                await fold_stored(
                    connection, sources, "l.entity > %(low)s AND l.entity <= %(high)s", low=low, high=high
                )
        except psycopg.OperationalError:
            raise
        except Exception as error:  # an altered log can make a fold raise anything
            problem = f"{type(error).__name__}: {error}"
            snapshot.comparison.value(chain_log.name, sources.name, "fold", problem, "rows")
        else:
            await scan_tables(connection)
            for table, condition, values in tables:
                await _compare_rows(snapshot, table, condition, values)
    return None if high == AFTER_ALL_ENTITIES else [high]


def _tables_between(sources: Sources, low: bytes, high: bytes) -> Iterator[tuple[Table, Composable, list[Any]]]:
    """Yield each table with rows of entities after `low` up to `high`, and the condition that selects these rows."""
    for part in PARTS:
        if part.role not in sources.contracts:
            continue
        if low < part.venue <= high:
            for kind in VENUE_KINDS[part.venue]:
                yield kind.table, *_of_chain(kind.table, sources)
        if low[:1] <= part.market <= high[:1]:
            conditions, values = [SQL("true")], []
            for bound, comparison in ((low, SQL("t.market_id > %b")), (high, SQL("t.market_id <= %b"))):
                if bound[:1] == part.market:
                    conditions.append(comparison)
                    values.append(part.key(bound))
            for table in part.tables:
                yield table, SQL(" AND ").join(conditions), values


def _of_chain(table: Table, sources: Sources) -> tuple[Composable, list[Any]]:
    return (SQL("t.chain_id = %b"), [sources.chain_id]) if "chain_id" in table.columns else (SQL("true"), [])


async def _sum_tables(snapshot: Snapshot, _after: Place | None) -> None:
    """Sum all stored rows again, and compare the results with the stored sums. Until the first backfill has ended, no
    sums are stored."""
    connection, sources = snapshot.connection, snapshot.sources
    summed = b"SELECT summed FROM chain_cursor WHERE chain_id = %s"
    if await connection.fetch_value(summed, (sources.chain_id,)):
        tables = sums.tables_of(sources)
        async with _empty_tables(connection, tables):
            await sums.fill(connection, sources)
            for table in tables:
                await _compare_rows(snapshot, table, *_of_chain(table, sources))


@asynccontextmanager
async def _empty_tables(connection: Connection, tables: Sequence[Table]) -> AsyncIterator[None]:
    """Hide the stored tables behind empty temporary ones of the same names, which are dropped when the context ends.
    The stored tables can still be reached with the prefix `public.`."""
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
    """Compare every column of a stored table with the temporary table. `condition` selects the stored rows, under the
    alias `t`. A row that exists in only one of the two tables is one mismatch."""
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
                comparison.row(table.name, its_key, is_there=ours_there)


def _whole(value: Any) -> Any:
    """Convert decimals to integers. All our numeric columns hold whole numbers."""
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

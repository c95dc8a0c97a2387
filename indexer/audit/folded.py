"""The stored rows against the raw logs: the logs are folded again, by the fold that wrote the rows, and every column of
every row must be the same.

The logs are folded into empty temporary tables of the same names, which stand before the stored ones while a page is
compared, so a column that is added is folded and compared without a change here. `indexer.audit.chain` compares the
logs themselves with the chain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier
from sqlalchemy import Table

from core.contracts.events import Role
from core.db.engine import Connection
from core.db.schema.index import chain_log
from indexer.audit.pages import AuditStage, Place, Snapshot, whole
from indexer.fold.venues import VENUE_KINDS
from indexer.store import sums
from indexer.store.folding import PARTS, Part
from indexer.store.steps import refold

LOGS_AT_ONCE = 20_000
MARKETS_AT_ONCE = 500
EVERY = SQL("true")

_ENTITIES = b"""
SELECT entity, count(*) FROM chain_log WHERE chain_id = %s AND entity > %s AND entity < %s
GROUP BY entity ORDER BY entity LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """The stored rows of one table to compare: those that a condition on `t` chooses."""

    table: Table
    condition: Composable
    values: Sequence[Any] = ()


def stages(roles: Sequence[Role]) -> list[AuditStage]:
    """Return the stages for the contracts that a chain has."""
    stages: list[AuditStage] = []
    for part in PARTS:
        if part.role in roles:
            stages.append(_venue(part))
            if part.tables:
                stages.append(_markets(part))
    return [*stages, whole("totals", _totals)]


def _venue(part: Part) -> AuditStage:
    async def compare(snapshot: Snapshot) -> None:
        chosen = [
            Rows(kind.table, SQL("t.chain_id = %b"), (snapshot.sources.chain_id,))
            if "chain_id" in kind.columns
            else Rows(kind.table, EVERY)
            for kind in VENUE_KINDS[part.venue]
        ]
        await _compare_folded(snapshot, [part.venue], lambda _entities: chosen)

    return whole(f"{part.name} venue rows", compare)


def _markets(part: Part) -> AuditStage:
    """Return a stage that pages through markets by entity, and so by key. The last page has no end: a row may come
    after the last log."""
    after_all = bytes([part.market[0] + 1])

    async def page(snapshot: Snapshot, after: Place | None) -> Place | None:
        first = bytes.fromhex(after[0]) if after else part.market
        counted = await snapshot.connection.fetch_all(
            _ENTITIES, (snapshot.sources.chain_id, first, after_all, MARKETS_AT_ONCE)
        )
        entities: list[bytes] = []
        logs = 0
        for entity, count in counted:
            entities.append(bytes(entity))
            logs += count
            if logs >= LOGS_AT_ONCE:
                break
        is_last = len(entities) == len(counted) < MARKETS_AT_ONCE
        bounds = [first, *entities]
        if is_last:
            bounds[-1] = after_all

        def chosen(some: Sequence[bytes]) -> list[Rows]:
            at = entities.index(some[0]) if some else 0
            return [_between(part, table, bounds[at], bounds[at + len(some)]) for table in part.tables]

        await _compare_folded(snapshot, entities, chosen)
        return None if is_last else [entities[-1].hex()]

    return AuditStage(f"{part.name} market rows", page)


def _between(part: Part, table: Table, first: bytes, last: bytes) -> Rows:
    """Select the rows of markets above `first` up to `last`; a bound without a key does not limit."""
    conditions, values = [EVERY], []
    for bound, compared in ((first, SQL("t.market_id > %b")), (last, SQL("t.market_id <= %b"))):
        if len(bound) > 1:
            conditions.append(compared)
            values.append(part.key(bound))
    return Rows(table, SQL(" AND ").join(conditions), values)


async def _totals(snapshot: Snapshot) -> None:
    """Sum all rows anew. Before history is read to its end nothing is summed."""
    query = b"SELECT summed FROM chain_cursor WHERE chain_id = %s"
    if await snapshot.connection.fetch_value(query, (snapshot.sources.chain_id,)):
        tables = sums.tables_of(snapshot.sources)
        async with empty_tables(snapshot.connection, tables):
            await sums.fill(snapshot.connection, snapshot.sources)
            for table in tables:
                await compare_rows(snapshot, Rows(table, EVERY))


async def _compare_folded(
    snapshot: Snapshot, entities: Sequence[bytes], chosen: Callable[[Sequence[bytes]], list[Rows]]
) -> None:
    """Fold some entities and compare their rows. If their logs cannot be folded together, try each entity alone."""
    problem = await compare_folded(snapshot, chosen(entities), refold(snapshot.connection, snapshot.sources, entities))
    if problem is None:
        return
    if len(entities) > 1:
        for entity in entities:
            await _compare_folded(snapshot, [entity], chosen)
    else:
        snapshot.comparison.value(chain_log.name, (entities or [b""])[0], "fold", problem, "rows")


async def compare_folded(snapshot: Snapshot, rows: Sequence[Rows], fold: Coroutine[Any, Any, None]) -> str | None:
    """Compare the rows with a fold of the stored logs; return why the logs cannot be folded, if they cannot."""
    async with empty_tables(snapshot.connection, [each.table for each in rows]):
        try:
            async with snapshot.connection.transaction():
                await fold
        except psycopg.OperationalError:
            raise
        except Exception as error:  # an altered log can make a fold raise anything
            return f"{type(error).__name__}: {error}"
        for each in rows:
            await compare_rows(snapshot, each)
    return None


@asynccontextmanager
async def empty_tables(connection: Connection, tables: Sequence[Table]) -> AsyncIterator[None]:
    """Empty temporary tables stand before the stored ones of the same names, which `public.` still names. In the end
    they are gone, with what was written to them."""
    async with connection.transaction(force_rollback=True):
        # Named first on purpose: a statement that was prepared for the stored tables is then planned anew.
        await connection.execute("SET LOCAL search_path = pg_temp, public")
        for table in tables:
            name = Identifier(table.name)
            await connection.execute(SQL("CREATE TEMPORARY TABLE {} (LIKE public.{})").format(name, name))
            key = SQL(", ").join(Identifier(column.name) for column in table.primary_key.columns)
            await connection.execute(SQL("ALTER TABLE pg_temp.{} ADD PRIMARY KEY ({})").format(name, key))
        yield


async def compare_rows(snapshot: Snapshot, chosen: Rows) -> None:
    """Compare every column of the chosen stored rows with the temporary table of the same name; a row that only one of
    them has differs as a row."""
    table, comparison = chosen.table, snapshot.comparison
    columns = [column.name for column in table.columns]
    key = [column.name for column in table.primary_key.columns]
    (folded_rows,) = await snapshot.row(f"SELECT count(*) FROM pg_temp.{table.name}".encode())  # noqa: S608 - our own names
    comparison.compared += folded_rows * len(columns)
    async with snapshot.connection.cursor(name="differences") as cursor:
        await cursor.execute(_difference(table, columns, key, chosen.condition), chosen.values)
        async for ours_there, folded_there, *values in cursor:
            whole_numbers = [_whole(value) for value in values]
            ours = dict(zip(columns, whole_numbers[: len(columns)], strict=True))
            folded = dict(zip(columns, whole_numbers[len(columns) :], strict=True))
            row = tuple((ours if ours_there else folded)[name] for name in key)
            if ours_there and folded_there:
                comparison.fields(table.name, row, ours, folded)
            else:
                comparison.keys(table.name, [row] if ours_there else [], [row] if folded_there else [])


def _whole(value: Any) -> Any:
    """Convert decimals to integers: all our numeric columns hold whole numbers."""
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value


def _difference(table: Table, columns: Sequence[str], key: Sequence[str], condition: Composable) -> Composed:
    return SQL(
        "SELECT o.{one} IS NOT NULL, f.{one} IS NOT NULL, {ours}, {folded}"
        " FROM (SELECT * FROM public.{table} AS t WHERE {condition}) AS o"
        " FULL JOIN pg_temp.{table} AS f ON {same_key} WHERE ({ours}) IS DISTINCT FROM ({folded}) ORDER BY {order}"
    ).format(
        one=Identifier(key[0]),
        table=Identifier(table.name),
        condition=condition,
        ours=SQL(", ").join(SQL("o.") + Identifier(name) for name in columns),
        folded=SQL(", ").join(SQL("f.") + Identifier(name) for name in columns),
        same_key=SQL(" AND ").join(SQL("o.{0} = f.{0}").format(Identifier(name)) for name in key),
        order=SQL(", ").join(SQL("coalesce(o.{0}, f.{0})").format(Identifier(name)) for name in key),
    )

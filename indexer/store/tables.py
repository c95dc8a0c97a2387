"""Reads and writes rows of declared tables. New rows are added by binary COPY. Rows are read and deleted by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from struct import Struct
from typing import Any, LiteralString, cast

import sqlalchemy as sa
from psycopg.sql import SQL, Composed, Identifier
from psycopg.types.json import JsonbBinaryDumper
from psycopg.types.numeric import IntLoader
from psycopg.types.string import BytesBinaryDumper
from sqlalchemy.dialects import postgresql

from core.db.engine import Connection
from core.db.schema.index import chain_log
from indexer.fold.rows import LogRecord, RowKind, Write

FEW_ROWS = 16


@cache
def column_types(table: sa.Table) -> tuple[LiteralString, ...]:
    """Return PostgreSQL's names of the column types, which COPY needs."""
    return tuple(_type_name(column.type) for column in table.columns)


def _type_name(kind: Any) -> LiteralString:
    name: Any = kind.compile(postgresql.dialect())  # type: ignore[no-untyped-call]
    return cast("LiteralString", name.lower().replace("(78, 0)", ""))


_BY_KEY = (
    b"SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;"
    b" SET LOCAL jit = off"
)


async def use_indexes(connection: Connection) -> None:
    """Make the planner use indexes in this transaction. Joins look up keys, but the planner's statistics lag behind the
    growing tables."""
    await connection.execute(_BY_KEY)


async def scan_tables(connection: Connection) -> None:
    """Let the planner scan whole tables again in this transaction, without a time limit."""
    await connection.execute(
        b"SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on"
    )


async def begin_writing(connection: Connection, *, durable: bool = True) -> None:
    """Apply the settings of a step's transaction. If `durable` is False, a database crash may lose the whole commit,
    but never part of it."""
    await connection.execute(_BY_KEY + b"; SET LOCAL synchronous_commit = " + (b"on" if durable else b"off"))


async def copy_rows(
    connection: Connection, table: sa.Table, rows: Iterable[Sequence[Any]], *, into: str | None = None
) -> None:
    """Append rows with values in column order to the table, or to the table `into`, which has the same columns."""
    async with connection.cursor() as cursor:
        # psycopg's default dumper for bytes is not its fastest.
        cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
        async with cursor.copy(copy_statement(table, into or table.name)) as copy:
            copy.set_types(column_types(table))
            write_row = copy.write_row
            for row in rows:
                await write_row(row)


async def store(connection: Connection, write: Write) -> None:
    """Insert new rows and update existing ones. A few rows, as is usual at the chain's head, are updated one by one in
    one round trip. More rows go through a temporary table and are updated by one statement."""
    if write.added:
        await copy_rows(connection, write.table, write.added)
    if 0 < len(write.changed) <= FEW_ROWS:
        async with connection.cursor() as cursor:
            cursor.adapters.register_dumper(dict, JsonbBinaryDumper)
            await cursor.executemany(_change_row_statement(write.table), write.changed)
    elif write.changed:
        staged = f"staged_{write.table.name}"
        await connection.execute(_stage_statement(write.table))
        await copy_rows(connection, write.table, write.changed, into=staged)
        await connection.execute(_change_statement(write.table))


async def clear(connection: Connection, table: sa.Table, chain_id: int) -> None:
    """Delete a chain's rows. If only one chain fills the table, delete all rows."""
    delete = SQL("DELETE FROM {}").format(Identifier(table.name))
    if "chain_id" in table.columns:
        await connection.execute(delete + SQL(" WHERE chain_id = %b"), (chain_id,))
    else:
        await connection.execute(delete)


async def remove(
    connection: Connection, table: sa.Table, columns: tuple[str, ...], values: Sequence[tuple[Any, ...]]
) -> None:
    """Delete the rows whose `columns` equal one of `values`."""
    if values:
        delete = SQL("DELETE FROM {} AS t USING ").format(Identifier(table.name))
        await connection.execute(delete + _keys(table, columns), _arrays(columns, values))


async def rows_by_key(
    connection: Connection, kind: RowKind, columns: tuple[str, ...], values: Sequence[tuple[Any, ...]]
) -> list[Any]:
    if not values:
        return []
    query = _select(kind) + SQL(" AS t, ") + _keys(kind.table, columns)
    return await _fetch(connection, kind, query, _arrays(columns, values))


async def rows_after(
    connection: Connection, kind: RowKind, key: tuple[str, ...], after: Sequence[Any] | None, limit: int
) -> list[Any]:
    """Return rows sorted by an indexed key. Start after the key `after`, or with the first row if `after` is None."""
    names = SQL(", ").join(SQL("t.") + Identifier(name) for name in key)
    query, values = _select(kind) + SQL(" AS t"), []
    if after is not None:
        places = SQL(", ").join(SQL("%b::") + SQL(_type_name(kind.table.columns[name].type)) for name in key)
        query += SQL(" WHERE ({}) > ({})").format(names, places)
        values = list(after)
    return await _fetch(connection, kind, query + SQL(" ORDER BY {} LIMIT %b").format(names), [*values, limit])


async def all_rows(connection: Connection, kind: RowKind) -> list[Any]:
    return await _fetch(connection, kind, _select(kind) + SQL(" AS t"), [])


async def _fetch(connection: Connection, kind: RowKind, query: Composed, values: Sequence[Any]) -> list[Any]:
    async with connection.cursor() as cursor:
        cursor.adapters.register_loader("numeric", IntLoader)  # every numeric column of ours is a whole number
        await cursor.execute(query, values)
        return [kind.loaded(row) for row in await cursor.fetchall()]


def _select(kind: RowKind) -> Composed:
    columns = SQL(", ").join(SQL("t.") + Identifier(name) for name in kind.columns)
    return SQL("SELECT {} FROM {}").format(columns, Identifier(kind.table.name))


def _keys(table: sa.Table, columns: tuple[str, ...]) -> Composed:
    """Return the SQL `unnest(%b::type[], ...) AS k (a, b) WHERE t.a = k.a AND t.b = k.b`."""
    arrays = SQL(", ").join(SQL("%b::") + SQL(_type_name(table.columns[name].type)) + SQL("[]") for name in columns)
    names = SQL(", ").join(Identifier(name) for name in columns)
    equal = SQL(" AND ").join(SQL("t.{0} = k.{0}").format(Identifier(name)) for name in columns)
    return SQL("unnest({}) AS k ({}) WHERE {}").format(arrays, names, equal)


def _arrays(columns: tuple[str, ...], values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [[value[position] for value in values] for position in range(len(columns))]


@cache
def copy_statement(table: sa.Table, into: str) -> bytes:
    columns = SQL(", ").join(Identifier(column.name) for column in table.columns)
    return SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(into), columns).as_bytes()


@cache
def _stage_statement(table: sa.Table) -> bytes:
    """Return the statements that create the session's staging table and empty it. It must be empty because one
    transaction may store a table several times, and rows staged earlier would overwrite later ones."""
    return (
        SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {staged} (LIKE {table}) ON COMMIT DELETE ROWS; TRUNCATE {staged}")
        .format(staged=Identifier(f"staged_{table.name}"), table=Identifier(table.name))
        .as_bytes()
    )


@cache
def _change_row_statement(table: sa.Table) -> bytes:
    values = SQL(", ").join(SQL("%b::") + SQL(kind) for kind in column_types(table))
    columns = SQL(", ").join(Identifier(column.name) for column in table.columns)
    return _changing(table, SQL("(VALUES ({})) AS s ({})").format(values, columns))


@cache
def _change_statement(table: sa.Table) -> bytes:
    return _changing(table, SQL("{} AS s").format(Identifier(f"staged_{table.name}")))


def _changing(table: sa.Table, rows: Composed) -> bytes:
    key = {column.name for column in table.primary_key.columns}
    changes = SQL(", ").join(
        SQL("{0} = s.{0}").format(Identifier(column.name)) for column in table.columns if column.name not in key
    )
    same = SQL(" AND ").join(SQL("t.{0} = s.{0}").format(Identifier(name)) for name in sorted(key))
    return SQL("UPDATE {} AS t SET {} FROM {} WHERE {}").format(Identifier(table.name), changes, rows, same).as_bytes()


_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_HEAD = Struct(">h iq iq ii i32s i20s i")
"""Columns; chain_id, block_number, log_index, tx_hash and address with their sizes; the size of `topics`."""
_size = Struct(">i").pack
AT_ONCE = 200
"""Rows passed to the driver together, about 64 kB: larger pieces are slower."""

_COLUMNS = "chain_id block_number log_index tx_hash address topics data entity"
assert " ".join(column.name for column in chain_log.columns) == _COLUMNS


async def write_logs(connection: Connection, chain_id: int, logs: Sequence[LogRecord]) -> None:
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

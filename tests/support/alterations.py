"""One alteration for every column of every table that the audit covers, taken from the declared schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.db.engine import Connection
from core.db.schema.index import chain_block, chain_log
from tests.support.index_tables import PROJECTIONS

AUDITED = (*PROJECTIONS, chain_block, chain_log)
_ALTERED = (
    (JSONB, """'["altered"]'::jsonb"""),
    (sa.SmallInteger, "(coalesce({0}, 0) + 100)::smallint"),
    (sa.Integer, "coalesce({0}, 0) + 1000"),
    (sa.Numeric, "coalesce({0}, 0) + 1000"),
    (sa.Boolean, "NOT {0}"),
    (sa.Text, "coalesce({0}, '') || 'x'"),
    (sa.ARRAY, "{0} || {0}[1]"),
    (
        sa.LargeBinary,
        "CASE WHEN coalesce(length({0}), 0) = 0 THEN decode(repeat('ab', 20), 'hex')"
        " ELSE set_byte({0}, length({0}) - 1, (get_byte({0}, length({0}) - 1) + 1) & 255) END",
    ),
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """A column of a table's first row, changed to another value of its type."""

    table: sa.Table
    column: str

    @property
    def is_key(self) -> bool:
        return self.column in self.table.primary_key.columns

    async def make(self, connection: Connection) -> str:
        """Alter the row in the caller's transaction, without the constraints that would reject it; return the row's key
        as the audit writes it."""
        name, key = self.table.name, ", ".join(f'"{each.name}"' for each in self.table.primary_key.columns)
        checks = await connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'", (name,)
        )
        for (check,) in await checks.fetchall():
            await connection.execute(f'ALTER TABLE {name} DROP CONSTRAINT "{check}"'.encode())
        first = await (await connection.execute(f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1".encode())).fetchone()
        assert first is not None, f"{name} has no row: it needs one to be altered"
        kind: object = self.table.columns[self.column].type
        kind = kind.impl if isinstance(kind, sa.types.TypeDecorator) else kind
        value = next(text for each, text in _ALTERED if isinstance(kind, each)).format(f'"{self.column}"')
        places = ", ".join(["%s"] * len(first))
        done = await connection.execute(
            f'UPDATE {name} SET "{self.column}" = {value} WHERE ({key}) = ({places})'.encode(), first
        )
        assert done.rowcount == 1
        return "/".join(f"0x{bytes(each).hex()}" if isinstance(each, bytes) else str(each) for each in first)


def alterations(tables: Iterable[sa.Table] = AUDITED) -> Iterator[Alteration]:
    """Yield one alteration per column and table; the database keeps a raw log in its chain's partition."""
    for table in tables:
        for column in table.columns:
            if table is not chain_log or column.name != "chain_id":
                yield Alteration(table, column.name)

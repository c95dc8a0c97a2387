"""Writes baseline/1_tables.sql from core/db/schema: `python -m core.db.migrations.tables`.

Until the first release, run it after each change to a table. After the release, write a migration instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from core.db.schema import metadata

TABLES = Path(__file__).parent / "baseline" / "1_tables.sql"


def rendered() -> str:
    """Return the SQL of all tables and indexes, in dependency order."""
    parts = ["-- Made from core/db/schema by `python -m core.db.migrations.tables`; a test fails while they differ.\n"]
    for table in metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts.append(_statement(CreateTable(table)) + "".join(_statement(CreateIndex(each)) for each in indexes))
    return "\n".join(parts)


def _statement(element: ExecutableDDLElement) -> str:
    text = str(element.compile(dialect=postgresql.dialect())).strip()  # type: ignore[no-untyped-call]
    return text.replace("\t", "    ").replace(", \n", ",\n") + ";\n"


def main() -> int:
    TABLES.write_text(rendered())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Alembic's entry: runs the migrations on the connection `core.db.migrate` hands over."""

from __future__ import annotations

from alembic import context

from core.db.migrate import compare_options
from core.db.schema import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("run migrations with `python -m core.db.migrate`")

context.configure(
    connection=connection,
    target_metadata=metadata,
    transaction_per_migration=True,
    **compare_options(connection),
)
with context.begin_transaction():
    context.run_migrations()

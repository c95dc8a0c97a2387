"""Alembic's entry point: runs migrations on the connection from `core.db.migrate`."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("run migrations with `python -m core.db.migrate`")

context.configure(connection=connection, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()

"""Alembic's environment and migrations. `core.db` explains how to add a migration."""

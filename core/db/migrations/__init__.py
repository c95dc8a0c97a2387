"""Alembic's environment and migrations; core.db says how to add one."""

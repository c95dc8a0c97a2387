"""Alembic's environment and the numbered migrations; see core.db for how to add one."""

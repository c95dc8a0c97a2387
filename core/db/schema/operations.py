"""Operator switches and daemon heartbeats."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, Integer, Table, Text, func
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import metadata
from core.db.types import UtcDateTime

# One row per switch; a missing row means off. Each change notifies the channel `operator_switch`.
# Names in use: `trading_paused` (refuse every real trade), `cup_halted`.
operator_switch = Table(
    "operator_switch",
    metadata,
    Column("name", Text, primary_key=True),
    Column("is_on", Boolean, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("changed_by", Text, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("name ~ '^[a-z][a-z_]{1,63}$'", name="name_is_a_word"),
)

# The last heartbeat of each daemon process; `detail` is for people, not for decisions.
daemon_heartbeat = Table(
    "daemon_heartbeat",
    metadata,
    Column("daemon", Text, primary_key=True),
    Column("instance", Text, primary_key=True),  # host:pid
    Column("pid", Integer, nullable=False),
    Column("is_leader", Boolean, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("detail", JSONB, nullable=False, server_default="{}"),
)

"""Keeper jobs asked for from outside: the API asks, the leading keeper runs them and writes the report."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, Index, Table, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import metadata
from core.db.types import UtcDateTime

# Inserting notifies the channel `keeper_job`, finishing notifies `keeper_job_done`; the payload is the id.
keeper_job = Table(
    "keeper_job",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("job", Text, nullable=False),
    Column("requested_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("runner", Text),  # host:pid of the keeper that took it
    Column("report", JSONB),  # {job, ok, startedAt, finishedAt, actions, skipped, errors}
    CheckConstraint("job ~ '^[a-z][a-z-]{0,31}$'", name="job_is_a_word"),
    CheckConstraint("(started_at IS NULL) = (runner IS NULL)", name="started_by_somebody"),
    CheckConstraint("finished_at IS NULL OR started_at IS NOT NULL", name="started_before_finished"),
    CheckConstraint("(finished_at IS NULL) = (report IS NULL)", name="finished_with_a_report"),
    # One request waits for everybody who asks for the same job before it starts.
    Index("uq_keeper_job_waiting", "job", unique=True, postgresql_where=text("started_at IS NULL")),
)

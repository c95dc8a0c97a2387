"""Operator switches, daemon heartbeats, the state that the keeper stores between runs, and requested jobs.

The keeper's jobs are idempotent even without the stored state, but cheaper and more careful with it. The API requests
jobs; the leading keeper runs the jobs and writes their reports.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import metadata
from core.db.types import ChainTime, UtcDateTime

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


# All transactions that the keeper requested, by subject, such as `stock:resolve:17`. A new attempt is only made if the
# number of attempts is still the one that was read, so two keepers cannot both make it.
keeper_attempt = Table(
    "keeper_attempt",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),  # attempts that failed in a row, right before the latest
    Column("intent_id", BigInteger, ForeignKey("outbox_intent.id"), nullable=False),  # of the latest attempt
    Column("requested_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("attempts > 0", name="asked_at_least_once"),
    CheckConstraint("failures >= 0 AND failures < attempts", name="failed_before_the_latest"),
    Index("ix_keeper_attempt_intent_id", "intent_id"),
)

# What reads have shown since when: findings that a later read must confirm before the keeper acts (the proof of a
# void), and when something became due if nothing else records it.
keeper_confirmation = Table(
    "keeper_confirmation",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("what", Text, nullable=False),
    Column("since", ChainTime, nullable=False),
)

# The last run of each job. `acted_at`: the last run that requested a transaction. `every_seconds`: the period in the
# settings of the keeper that ran it; null for a job that only runs on request.
keeper_run = Table(
    "keeper_run",
    metadata,
    Column("job", Text, primary_key=True),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, nullable=False),
    Column("ok", Boolean, nullable=False),
    Column("acted_at", UtcDateTime),
    Column("every_seconds", Double),
    Column("report", JSONB, nullable=False),
)

# Inserting notifies the channel `keeper_job`; the payload is the id.
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
    CheckConstraint("(started_at IS NULL) = (runner IS NULL)", name="started_has_a_runner"),
    CheckConstraint("finished_at IS NULL OR started_at IS NOT NULL", name="started_before_finished"),
    CheckConstraint("(finished_at IS NULL) = (report IS NULL)", name="finished_with_a_report"),
    # Callers who request the same job before it starts share one request.
    Index("uq_keeper_job_waiting", "job", unique=True, postgresql_where=text("started_at IS NULL")),
)

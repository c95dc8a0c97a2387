"""Operator switches, daemon heartbeats, the state that the keeper stores between runs, and requested jobs.

The keeper's jobs are idempotent even without the stored state; the state makes them cheaper and more careful. The API
requests jobs. The leading keeper runs the jobs and writes their reports.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import partial_index, table
from core.db.types import ChainTime, UtcDateTime

# One row per switch; a missing row means off. Each change notifies the channel `operator_switch`.
# Names in use: `trading_paused` (refuse every trade), `cup_halted`.
operator_switch = table(
    "operator_switch",
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("is_on", sa.Boolean, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
    sa.Column("changed_by", sa.Text, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("name ~ '^[a-z][a-z_]{1,63}$'", name="name_is_a_word"),
)

# The last heartbeat of each daemon process; `detail` is for people, not for decisions.
daemon_heartbeat = table(
    "daemon_heartbeat",
    sa.Column("daemon", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, primary_key=True),  # host:pid
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("is_leader", sa.Boolean, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("detail", JSONB, nullable=False, server_default="{}"),
)


# All transactions that the keeper requested, by subject, such as `stock:resolve:17`. A new attempt is only made if the
# number of attempts is still the one that was read, so two keepers cannot both make it.
keeper_attempt = table(
    "keeper_attempt",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),  # attempts that failed in a row, right before the latest
    sa.Column("intent_id", sa.BigInteger, sa.ForeignKey("outbox_intent.id"), nullable=False),  # of the latest attempt
    sa.Column("requested_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("attempts > 0", name="asked_at_least_once"),
    sa.CheckConstraint("failures >= 0 AND failures < attempts", name="failed_before_the_latest"),
    sa.Index("ix_keeper_attempt_intent_id", "intent_id"),
)

# What reads have shown since when: findings that a later read must confirm before the keeper acts (the proof of a
# void), and when something became due if nothing else records it.
keeper_confirmation = table(
    "keeper_confirmation",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("since", ChainTime, nullable=False),
)

# The last run of each job. `acted_at`: the last run that requested a transaction. `every_seconds`: the period in the
# settings of the keeper that ran it; null for a job that only runs on request.
keeper_run = table(
    "keeper_run",
    sa.Column("job", sa.Text, primary_key=True),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("finished_at", UtcDateTime, nullable=False),
    sa.Column("ok", sa.Boolean, nullable=False),
    sa.Column("acted_at", UtcDateTime),
    sa.Column("every_seconds", sa.Double),
    sa.Column("report", JSONB, nullable=False),
)

# Inserting notifies the channel `keeper_job`; the payload is the id.
keeper_job = table(
    "keeper_job",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("job", sa.Text, nullable=False),
    sa.Column("requested_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("started_at", UtcDateTime),
    sa.Column("finished_at", UtcDateTime),
    sa.Column("runner", sa.Text),  # host:pid of the keeper that took it
    sa.Column("report", JSONB),  # {job, ok, startedAt, finishedAt, actions, skipped, errors}
    sa.CheckConstraint("job ~ '^[a-z][a-z-]{0,31}$'", name="job_is_a_word"),
    sa.CheckConstraint("(started_at IS NULL) = (runner IS NULL)", name="started_has_a_runner"),
    sa.CheckConstraint("finished_at IS NULL OR started_at IS NOT NULL", name="started_before_finished"),
    sa.CheckConstraint("(finished_at IS NULL) = (report IS NULL)", name="finished_with_a_report"),
    # Callers who request the same job before it starts share one request.
    partial_index("uq_keeper_job_waiting", "job", unique=True, where="started_at IS NULL"),
)

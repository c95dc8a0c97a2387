"""Keeper jobs asked for from outside, and the notifications around them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "jobs_0001"
down_revision = None
branch_labels = ("jobs",)
depends_on = "core_0001"

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "keeper_job",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("requested_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("started_at", UTC),
        sa.Column("finished_at", UTC),
        sa.Column("runner", sa.Text()),
        sa.Column("report", postgresql.JSONB()),
        sa.PrimaryKeyConstraint("id", name="pk_keeper_job"),
        sa.CheckConstraint("job ~ '^[a-z][a-z-]{0,31}$'", name="job_is_a_word"),
        sa.CheckConstraint("(started_at IS NULL) = (runner IS NULL)", name="started_by_somebody"),
        sa.CheckConstraint("finished_at IS NULL OR started_at IS NOT NULL", name="started_before_finished"),
        sa.CheckConstraint("(finished_at IS NULL) = (report IS NULL)", name="finished_with_a_report"),
    )
    op.create_index(
        "uq_keeper_job_waiting", "keeper_job", ["job"], unique=True, postgresql_where=sa.text("started_at IS NULL")
    )
    op.execute(
        """
        CREATE FUNCTION notify_keeper_job() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                PERFORM pg_notify('keeper_job', NEW.id::text);
            ELSIF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
                PERFORM pg_notify('keeper_job_done', NEW.id::text);
            END IF;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER keeper_job_changed AFTER INSERT OR UPDATE ON keeper_job "
        "FOR EACH ROW EXECUTE FUNCTION notify_keeper_job()"
    )


def downgrade() -> None:
    op.drop_table("keeper_job")
    op.execute("DROP FUNCTION notify_keeper_job()")

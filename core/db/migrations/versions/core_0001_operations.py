"""Operator switches and daemon heartbeats."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "core_0001"
down_revision = None
branch_labels = ("core",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "operator_switch",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.CheckConstraint("name ~ '^[a-z][a-z_]{1,63}$'", name="name_is_a_word"),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "daemon_heartbeat",
        sa.Column("daemon", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("is_leader", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("detail", postgresql.JSONB(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("daemon", "instance"),
    )
    op.execute(
        """
        CREATE FUNCTION notify_operator_switch() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('operator_switch', COALESCE(NEW.name, OLD.name));
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        "CREATE TRIGGER operator_switch_changed AFTER INSERT OR UPDATE OR DELETE ON operator_switch "
        "FOR EACH ROW EXECUTE FUNCTION notify_operator_switch()"
    )


def downgrade() -> None:
    op.drop_table("daemon_heartbeat")
    op.drop_table("operator_switch")
    op.execute("DROP FUNCTION notify_operator_switch()")

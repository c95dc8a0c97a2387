"""Tests of webhooks that wait to be sent: they are addressed to one endpoint and are in no log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "agent_0004"
down_revision = "agent_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_webhook_test",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["agent_webhook.id"],
            name="fk_agent_webhook_test_webhook_id",
            onupdate="CASCADE",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_agent_webhook_test"),
    )
    op.create_index("ix_agent_webhook_test_webhook_id", "agent_webhook_test", ["webhook_id", "id"])


def downgrade() -> None:
    op.drop_table("agent_webhook_test")

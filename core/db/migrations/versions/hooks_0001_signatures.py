"""The registration messages that were used: a wallet's signature registers one webhook, once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "hooks_0001"
down_revision = None
branch_labels = ("hooks",)
depends_on = "core_0001"


def upgrade() -> None:
    op.create_table(
        "agent_webhook_message",
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("wallet", "digest", name="pk_agent_webhook_message"),
    )


def downgrade() -> None:
    op.drop_table("agent_webhook_message")

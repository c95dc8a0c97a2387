"""Which intent each of the payers' authorizations was brought for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "agent_0003"
down_revision = "agent_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_authorization",
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("intent_hash", sa.LargeBinary(), nullable=False),
        sa.Column("brought_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("wallet", "nonce", name="pk_agent_authorization"),
    )
    # What earlier attempts brought is overwritten in `agent_trade`; it ran out minutes after.
    op.execute(KNOWN)


def downgrade() -> None:
    op.drop_table("agent_authorization")


KNOWN = """
INSERT INTO agent_authorization (wallet, nonce, intent_hash, brought_at)
SELECT DISTINCT ON (wallet, nonce) wallet, nonce, intent_hash, created_at FROM agent_trade
ORDER BY wallet, nonce, created_at
"""

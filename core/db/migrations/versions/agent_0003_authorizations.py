"""Which bet each of the payers' authorizations was brought for."""

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
        sa.Column("bet_hash", sa.LargeBinary(), nullable=False),
        sa.Column("idem_hash", sa.LargeBinary(), nullable=False),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("arguments", sa.LargeBinary(), nullable=False),
        sa.Column("brought_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("wallet", "nonce", name="pk_agent_authorization"),
    )
    op.create_index("ix_agent_authorization_idem_hash", "agent_authorization", ["wallet", "idem_hash"])


def downgrade() -> None:
    op.drop_table("agent_authorization")

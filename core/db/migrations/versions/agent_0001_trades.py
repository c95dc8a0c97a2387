"""Price locks of the agent API, and the payments it took in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "agent_0001"
down_revision = None
branch_labels = ("agent",)
depends_on = "outbox_0001"

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "agent_quote",
        sa.Column("quote_id", sa.Text(), nullable=False),
        sa.Column("market_id", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("shares", sa.Numeric(78, 0), nullable=False),
        sa.Column("created_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("wallet", sa.LargeBinary()),
        sa.Column("idem_hash", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("quote_id", name="pk_agent_quote"),
        sa.CheckConstraint("(wallet IS NULL) = (idem_hash IS NULL)", name="used_by_a_trade"),
    )
    op.create_index("ix_agent_quote_expires_at", "agent_quote", ["expires_at"])
    op.create_table(
        "agent_trade",
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("idem_hash", sa.LargeBinary(), nullable=False),
        sa.Column("market_id", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("builder", sa.LargeBinary()),
        sa.Column("bet_hash", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("valid_before", sa.BigInteger(), nullable=False),
        sa.Column("callback_url", sa.Text()),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("intent_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("wallet", "idem_hash", name="pk_agent_trade"),
        sa.CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
    )
    op.create_index("ix_agent_trade_bet_hash", "agent_trade", ["bet_hash"])


def downgrade() -> None:
    op.drop_table("agent_trade")
    op.drop_table("agent_quote")

"""Bets the relay took in, by the authorization that pays for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "relay_0001"
down_revision = None
branch_labels = ("relay",)
depends_on = "core_0001"

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "relay_bet",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("signer", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("market_id", sa.BigInteger(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("intent_id", sa.BigInteger()),
        sa.Column("tx_hash", sa.LargeBinary()),
        sa.Column("created_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("confirmed_told_at", UTC),
        sa.PrimaryKeyConstraint("chain_id", "signer", "nonce", name="pk_relay_bet"),
        sa.CheckConstraint("intent_id IS NOT NULL OR tx_hash IS NOT NULL", name="points_at_a_transaction"),
        sa.CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
    )


def downgrade() -> None:
    op.drop_table("relay_bet")

"""The agent event log and the endpoints it is pushed to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "agent_0002"
down_revision = "agent_0001"
branch_labels = None
depends_on = None

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "agent_event_wallet",
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("chain_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("wallet", name="pk_agent_event_wallet"),
    )
    op.create_table(
        "agent_event",
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("occurrence", sa.SmallInteger(), nullable=False),
        sa.Column("corrects", sa.LargeBinary()),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("market_id", sa.Text()),
        sa.Column("trade_id", sa.LargeBinary()),
        sa.Column("at_micros", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger()),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("recorded_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("wallet", "seq", name="pk_agent_event"),
        sa.CheckConstraint("seq >= 0", name="seq_counts_from_zero"),
    )
    op.create_index("uq_agent_event_source", "agent_event", ["source", "occurrence"], unique=True)
    op.create_index(
        "uq_agent_event_corrects",
        "agent_event",
        ["corrects", "occurrence"],
        unique=True,
        postgresql_where=sa.text("corrects IS NOT NULL"),
    )
    op.create_index(
        "ix_agent_event_trade_id",
        "agent_event",
        ["trade_id", "seq"],
        postgresql_where=sa.text("trade_id IS NOT NULL"),
    )
    op.create_index(
        "ix_agent_event_block_number",
        "agent_event",
        ["block_number"],
        postgresql_where=sa.text("block_number IS NOT NULL"),
    )
    op.create_index("ix_agent_event_at", "agent_event", ["wallet", "at_micros"])
    op.execute(KEPT_FUNCTION)
    op.execute(KEPT_TRIGGER)
    op.create_table(
        "agent_webhook",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("trade_id", sa.LargeBinary()),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text()),
        sa.Column("challenge", sa.Text()),
        sa.Column("next_seq", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempt_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("failing_since", UTC),
        sa.Column("last_error", sa.Text()),
        sa.Column("verify_until", UTC),
        sa.Column("lease", postgresql.UUID(as_uuid=True)),
        sa.Column("lease_until", UTC),
        sa.Column("created_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agent_webhook"),
        sa.CheckConstraint("status IN ('pending_verification', 'active', 'disabled')", name="status_is_known"),
        sa.CheckConstraint("(trade_id IS NULL) = (secret IS NOT NULL)", name="a_callback_has_no_secret"),
        sa.CheckConstraint("(lease IS NULL) = (lease_until IS NULL)", name="a_lease_ends"),
    )
    op.create_index(
        "uq_agent_webhook_url",
        "agent_webhook",
        ["wallet", "url"],
        unique=True,
        postgresql_where=sa.text("trade_id IS NULL"),
    )
    op.create_index(
        "uq_agent_webhook_callback",
        "agent_webhook",
        ["trade_id", "url"],
        unique=True,
        postgresql_where=sa.text("trade_id IS NOT NULL"),
    )
    op.create_index("ix_agent_webhook_wallet", "agent_webhook", ["wallet"])
    op.create_index(
        "ix_agent_webhook_attempt_at",
        "agent_webhook",
        ["attempt_at"],
        postgresql_where=sa.text("status <> 'disabled'"),
    )
    op.create_table(
        "agent_webhook_dead",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_agent_webhook_dead"),
    )
    op.create_index("ix_agent_webhook_dead_webhook_id", "agent_webhook_dead", ["webhook_id"])
    # The relayer asks which bet an intent carries.
    op.create_index("ix_agent_trade_intent_id", "agent_trade", ["intent_id"])


def downgrade() -> None:
    op.drop_index("ix_agent_trade_intent_id", "agent_trade")
    for table in ("agent_webhook_dead", "agent_webhook", "agent_event", "agent_event_wallet"):
        op.drop_table(table)
    op.execute("DROP FUNCTION agent_events_are_kept()")


KEPT_FUNCTION = """
CREATE FUNCTION agent_events_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = 'agent_event rows are never changed';
END $$
"""
KEPT_TRIGGER = """
CREATE TRIGGER agent_event_rows_are_kept BEFORE UPDATE OR DELETE ON agent_event
    FOR EACH STATEMENT EXECUTE FUNCTION agent_events_are_kept()
"""

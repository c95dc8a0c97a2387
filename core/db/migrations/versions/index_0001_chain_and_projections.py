"""What the indexer has read of each chain, and the projections folded from it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "index_0001"
down_revision = None
branch_labels = ("index",)
depends_on = "core_0001"


def upgrade() -> None:
    op.create_table(
        "chain_cursor",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("start_block", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=True),
        sa.Column("block_time", sa.BigInteger(), nullable=True),
        sa.Column("l1_block_number", sa.BigInteger(), nullable=True),
        sa.Column("head_number", sa.BigInteger(), nullable=True),
        sa.Column("head_time", sa.BigInteger(), nullable=True),
        sa.Column("head_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finalized_number", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), server_default="backfill", nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("sources", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(state = 'halted') = (problem IS NOT NULL)", name=op.f("ck_chain_cursor_a_halt_says_why")),
        sa.CheckConstraint("state IN ('backfill', 'tail', 'halted')", name=op.f("ck_chain_cursor_state_is_known")),
        sa.CheckConstraint(
            "(hash IS NULL) = (number = start_block - 1)", name=op.f("ck_chain_cursor_a_block_has_a_hash")
        ),
        sa.CheckConstraint("number >= start_block - 1", name=op.f("ck_chain_cursor_not_before_the_start")),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_chain_cursor")),
    )
    op.create_table(
        "chain_block",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("l1_block_number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "number", name=op.f("pk_chain_block")),
    )
    op.create_table(
        "chain_log",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("tx_hash", sa.LargeBinary(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("topics", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("entity", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("chain_id", "block_number", "log_index", name=op.f("pk_chain_log")),
    )
    op.create_index(
        "ix_chain_log_entity",
        "chain_log",
        ["chain_id", "entity", "block_number", "log_index"],
        unique=False,
        postgresql_where=sa.text("entity IS NOT NULL"),
    )
    op.create_table(
        "chain_log_removed",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("reorg_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("block_hash", sa.LargeBinary(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("tx_hash", sa.LargeBinary(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("topics", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("entity", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_log_removed")),
    )
    op.create_index("ix_chain_log_removed_reorg_id", "chain_log_removed", ["reorg_id"], unique=False)
    op.create_table(
        "chain_reorg",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("from_number", sa.BigInteger(), nullable=False),
        sa.Column("from_hash", sa.LargeBinary(), nullable=False),
        sa.Column("ancestor_number", sa.BigInteger(), nullable=False),
        sa.Column("removed_logs", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("from_number > ancestor_number", name=op.f("ck_chain_reorg_goes_back")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_reorg")),
    )
    op.create_table(
        "chain_audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("block_hash", sa.LargeBinary(), nullable=False),
        sa.Column("compared", sa.Integer(), nullable=False),
        sa.Column("mismatches", sa.Integer(), nullable=False),
        sa.Column("detail", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_audit")),
    )
    op.create_index("ix_chain_audit_chain_id", "chain_audit", ["chain_id", "id"], unique=False)
    op.create_table(
        "stock_market",
        sa.Column("market_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("opener", sa.LargeBinary(), nullable=False),
        sa.Column("resolver", sa.LargeBinary(), nullable=False),
        sa.Column("freeze_time", sa.BigInteger(), nullable=False),
        sa.Column("void_delay", sa.BigInteger(), nullable=False),
        sa.Column("fee_bps", sa.Integer(), nullable=False),
        sa.Column("kappa", sa.BigInteger(), nullable=False),
        sa.Column("seed_per_leg", sa.Numeric(78, 0), nullable=False),
        sa.Column("min_entry", sa.Numeric(78, 0), nullable=False),
        sa.Column("max_entry", sa.Numeric(78, 0), nullable=False),
        sa.Column("principal_up", sa.Numeric(78, 0), nullable=False),
        sa.Column("principal_down", sa.Numeric(78, 0), nullable=False),
        sa.Column("acc_up", sa.Numeric(78, 0), nullable=False),
        sa.Column("acc_down", sa.Numeric(78, 0), nullable=False),
        sa.Column("pending_vintage", sa.BigInteger(), nullable=True),
        sa.Column("pending_up", sa.Numeric(78, 0), nullable=False),
        sa.Column("pending_down", sa.Numeric(78, 0), nullable=False),
        sa.Column("winner", sa.SmallInteger(), nullable=True),
        sa.Column("voided", sa.Boolean(), nullable=False),
        sa.Column("paid_principal", sa.Numeric(78, 0), nullable=False),
        sa.Column("paid", sa.Numeric(78, 0), nullable=False),
        sa.Column("fees", sa.Numeric(78, 0), nullable=False),
        sa.Column("refunded", sa.Numeric(78, 0), nullable=False),
        sa.Column("residue_claimed", sa.Numeric(78, 0), nullable=False),
        sa.Column("positions", sa.Integer(), nullable=False),
        sa.Column("vintages", sa.Integer(), nullable=False),
        sa.Column("created_block", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_tx", sa.LargeBinary(), nullable=False),
        sa.Column("closed_block", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_tx", sa.LargeBinary(), nullable=True),
        sa.Column("residue_tx", sa.LargeBinary(), nullable=True),
        sa.Column("spec_id", sa.LargeBinary(), nullable=True),
        sa.Column("feed", sa.LargeBinary(), nullable=True),
        sa.Column("ticker", sa.Text(), nullable=True),
        sa.Column("family", sa.SmallInteger(), nullable=True),
        sa.Column("stock_token", sa.LargeBinary(), nullable=True),
        sa.Column("strike_time", sa.BigInteger(), nullable=True),
        sa.Column("final_time", sa.BigInteger(), nullable=True),
        sa.Column("max_strike_age", sa.BigInteger(), nullable=True),
        sa.Column("max_final_age", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.SmallInteger(), nullable=True),
        sa.Column("reason", sa.SmallInteger(), nullable=True),
        sa.Column("strike_round", sa.Numeric(78, 0), nullable=True),
        sa.Column("strike_answer", sa.Numeric(78, 0), nullable=True),
        sa.Column("strike_round_at", sa.BigInteger(), nullable=True),
        sa.Column("final_round", sa.Numeric(78, 0), nullable=True),
        sa.Column("final_answer", sa.Numeric(78, 0), nullable=True),
        sa.Column("final_round_at", sa.BigInteger(), nullable=True),
        sa.Column("updated_block", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(closed_tx IS NOT NULL) = (voided OR winner IS NOT NULL)", name=op.f("ck_stock_market_closed_once")
        ),
        sa.CheckConstraint("NOT (voided AND winner IS NOT NULL)", name=op.f("ck_stock_market_void_has_no_winner")),
        sa.CheckConstraint(
            "pending_vintage IS NOT NULL OR (pending_up = 0 AND pending_down = 0)",
            name=op.f("ck_stock_market_pending_has_a_block"),
        ),
        sa.CheckConstraint("winner IN (0, 1)", name=op.f("ck_stock_market_winner_is_a_side")),
        sa.PrimaryKeyConstraint("market_id", name=op.f("pk_stock_market")),
    )
    op.create_table(
        "stock_vintage",
        sa.Column("market_id", sa.BigInteger(), nullable=False),
        sa.Column("vintage", sa.BigInteger(), nullable=False),
        sa.Column("offered_up", sa.Numeric(78, 0), nullable=False),
        sa.Column("offered_down", sa.Numeric(78, 0), nullable=False),
        sa.Column("accepted_up", sa.Numeric(78, 0), nullable=True),
        sa.Column("accepted_down", sa.Numeric(78, 0), nullable=True),
        sa.Column("entry_acc_up", sa.Numeric(78, 0), nullable=True),
        sa.Column("entry_acc_down", sa.Numeric(78, 0), nullable=True),
        sa.Column("finalized_block", sa.BigInteger(), nullable=True),
        sa.Column("finalized_at", sa.BigInteger(), nullable=True),
        sa.Column("finalized_tx", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("market_id", "vintage", name=op.f("pk_stock_vintage")),
    )
    op.create_table(
        "stock_position",
        sa.Column("position_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("market_id", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("owner", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("offered", sa.Numeric(78, 0), nullable=False),
        sa.Column("vintage", sa.BigInteger(), nullable=False),
        sa.Column("offered_before", sa.Numeric(78, 0), nullable=False),
        sa.Column("claimed", sa.Boolean(), nullable=False),
        sa.Column("refunded", sa.Boolean(), nullable=False),
        sa.Column("payout", sa.Numeric(78, 0), nullable=False),
        sa.Column("fee", sa.Numeric(78, 0), nullable=False),
        sa.Column("refund", sa.Numeric(78, 0), nullable=False),
        sa.Column("entered_block", sa.BigInteger(), nullable=False),
        sa.Column("entered_at", sa.BigInteger(), nullable=False),
        sa.Column("entry_tx", sa.LargeBinary(), nullable=False),
        sa.Column("payout_at", sa.BigInteger(), nullable=True),
        sa.Column("payout_tx", sa.LargeBinary(), nullable=True),
        sa.Column("refund_at", sa.BigInteger(), nullable=True),
        sa.Column("refund_tx", sa.LargeBinary(), nullable=True),
        sa.Column("failed_deliveries", sa.Integer(), nullable=False),
        sa.Column("failed_tx", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("outcome IN (0, 1)", name=op.f("ck_stock_position_outcome_is_a_side")),
        sa.PrimaryKeyConstraint("position_id", name=op.f("pk_stock_position")),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_stock_position_market_id_ordinal", "stock_position", ["market_id", "ordinal"], unique=True)
    op.create_index("ix_stock_position_owner", "stock_position", ["owner"], unique=False)
    op.create_table(
        "stock_fee_sweep",
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("block_number", "log_index", name=op.f("pk_stock_fee_sweep")),
    )
    op.create_table(
        "stock_feed",
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("stock_token", sa.LargeBinary(), nullable=False),
        sa.Column("ticker", sa.Text(), nullable=False),
        sa.Column("max_strike_age", sa.BigInteger(), nullable=False),
        sa.Column("max_final_age", sa.BigInteger(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("set_tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("feed", name=op.f("pk_stock_feed")),
    )
    op.create_table(
        "stock_opener",
        sa.Column("opener", sa.LargeBinary(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("set_tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("opener", name=op.f("pk_stock_opener")),
    )
    op.create_table(
        "stock_venue",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("entries_paused", sa.Boolean(), nullable=False),
        sa.Column("fees_swept", sa.Numeric(78, 0), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_stock_venue")),
    )
    op.create_table(
        "agent_market",
        sa.Column("market_id", sa.LargeBinary(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("target", sa.Numeric(78, 0), nullable=False),
        sa.Column("bounds", sa.ARRAY(sa.Numeric(precision=78, scale=0)), nullable=False),
        sa.Column("early_resolvable", sa.Boolean(), nullable=False),
        sa.Column("opens_at", sa.BigInteger(), nullable=False),
        sa.Column("closes_at", sa.BigInteger(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("ends_at", sa.BigInteger(), nullable=False),
        sa.Column("outcomes", sa.SmallInteger(), nullable=False),
        sa.Column("weights", sa.ARRAY(sa.Numeric(precision=78, scale=0)), nullable=False),
        sa.Column("fee_bps", sa.Integer(), nullable=False),
        sa.Column("pot_cap", sa.Numeric(78, 0), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.Column("max_age", sa.BigInteger(), nullable=False),
        sa.Column("early_from", sa.BigInteger(), nullable=False),
        sa.Column("settles_after", sa.BigInteger(), nullable=False),
        sa.Column("voids_after", sa.BigInteger(), nullable=False),
        sa.Column("lister", sa.LargeBinary(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("document", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("slug", sa.Text(), nullable=True),
        sa.Column("staked", sa.Numeric(78, 0), nullable=False),
        sa.Column("net_pool", sa.Numeric(78, 0), nullable=False),
        sa.Column("stakes", sa.Integer(), nullable=False),
        sa.Column("late_payments", sa.Integer(), nullable=False),
        sa.Column("paid_out", sa.Numeric(78, 0), nullable=False),
        sa.Column("paid_shares", sa.Numeric(78, 0), nullable=False),
        sa.Column("given_back", sa.Numeric(78, 0), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("winner", sa.SmallInteger(), nullable=True),
        sa.Column("void_reason", sa.SmallInteger(), nullable=True),
        sa.Column("end_round", sa.Numeric(78, 0), nullable=True),
        sa.Column("end_answer", sa.Numeric(78, 0), nullable=True),
        sa.Column("end_updated_at", sa.BigInteger(), nullable=True),
        sa.Column("start_round", sa.Numeric(78, 0), nullable=True),
        sa.Column("start_answer", sa.Numeric(78, 0), nullable=True),
        sa.Column("start_updated_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_block", sa.BigInteger(), nullable=True),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_tx", sa.LargeBinary(), nullable=True),
        sa.Column("listed_block", sa.BigInteger(), nullable=False),
        sa.Column("listed_log_index", sa.Integer(), nullable=False),
        sa.Column("listed_at", sa.BigInteger(), nullable=False),
        sa.Column("listed_tx", sa.LargeBinary(), nullable=False),
        sa.Column("updated_block", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("(status = 1) = (closed_tx IS NULL)", name=op.f("ck_agent_market_closed_once")),
        sa.CheckConstraint("(status = 2) = (winner IS NOT NULL)", name=op.f("ck_agent_market_resolved_has_a_winner")),
        sa.CheckConstraint("(status = 3) = (void_reason IS NOT NULL)", name=op.f("ck_agent_market_void_has_a_reason")),
        sa.CheckConstraint("status IN (1, 2, 3)", name=op.f("ck_agent_market_status_is_known")),
        sa.PrimaryKeyConstraint("market_id", name=op.f("pk_agent_market")),
    )
    op.create_index("ix_agent_market_index", "agent_market", ["index"], unique=True)
    op.create_index("ix_agent_market_slug", "agent_market", ["slug"], unique=False)
    op.create_table(
        "agent_outcome",
        sa.Column("market_id", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("net", sa.Numeric(78, 0), nullable=False),
        sa.Column("shares", sa.Numeric(78, 0), nullable=False),
        sa.Column("excess", sa.Numeric(78, 0), nullable=False),
        sa.Column("stakes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("market_id", "outcome", name=op.f("pk_agent_outcome")),
    )
    op.create_table(
        "agent_stake",
        sa.Column("stake_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("market_id", sa.LargeBinary(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("wallet", sa.LargeBinary(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=True),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("fee", sa.Numeric(78, 0), nullable=False),
        sa.Column("shares", sa.Numeric(78, 0), nullable=False),
        sa.Column("price_before", sa.Numeric(78, 0), nullable=True),
        sa.Column("price_after", sa.Numeric(78, 0), nullable=True),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("bet_hash", sa.LargeBinary(), nullable=False),
        sa.Column("idem_hash", sa.LargeBinary(), nullable=False),
        sa.Column("builder", sa.LargeBinary(), nullable=True),
        sa.Column("ref", sa.LargeBinary(), nullable=True),
        sa.Column("refund_reason", sa.SmallInteger(), nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("staked_block", sa.BigInteger(), nullable=False),
        sa.Column("staked_log_index", sa.Integer(), nullable=False),
        sa.Column("staked_at", sa.BigInteger(), nullable=False),
        sa.Column("staked_tx", sa.LargeBinary(), nullable=False),
        sa.Column("paid_amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("paid_block", sa.BigInteger(), nullable=True),
        sa.Column("paid_at", sa.BigInteger(), nullable=True),
        sa.Column("paid_tx", sa.LargeBinary(), nullable=True),
        sa.Column("failed_payouts", sa.Integer(), nullable=False),
        sa.Column("failed_tx", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "(status IN (3, 4)) = (paid_tx IS NOT NULL)", name=op.f("ck_agent_stake_paid_has_a_transaction")
        ),
        sa.CheckConstraint("status IN (1, 2, 3, 4)", name=op.f("ck_agent_stake_status_is_known")),
        sa.PrimaryKeyConstraint("stake_id", name=op.f("pk_agent_stake")),
    )
    op.create_index("ix_agent_stake_bet_hash", "agent_stake", ["bet_hash"], unique=False)
    op.create_index("ix_agent_stake_market_id_ordinal", "agent_stake", ["market_id", "ordinal"], unique=True)
    op.create_index("ix_agent_stake_nonce", "agent_stake", ["wallet", "nonce"], unique=False)
    op.create_index("ix_agent_stake_wallet", "agent_stake", ["wallet", "staked_block"], unique=False)
    op.create_table(
        "agent_fee_sweep",
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("block_number", "log_index", name=op.f("pk_agent_fee_sweep")),
    )
    op.create_table(
        "agent_role",
        sa.Column("role", sa.LargeBinary(), nullable=False),
        sa.Column("account", sa.LargeBinary(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("set_tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("role", "account", name=op.f("pk_agent_role")),
    )
    op.create_table(
        "agent_feed",
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("condemned", sa.Boolean(), nullable=False),
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.Column("memory", sa.BigInteger(), nullable=False),
        sa.Column("max_age", sa.BigInteger(), nullable=False),
        sa.Column("lag", sa.BigInteger(), nullable=False),
        sa.Column("pot_cap", sa.Numeric(78, 0), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("set_tx", sa.LargeBinary(), nullable=False),
        sa.Column("condemned_at", sa.BigInteger(), nullable=True),
        sa.Column("condemned_tx", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "condemned = (condemned_tx IS NOT NULL)", name=op.f("ck_agent_feed_condemned_by_a_transaction")
        ),
        sa.PrimaryKeyConstraint("feed", name=op.f("pk_agent_feed")),
    )
    op.create_table(
        "agent_venue",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stakes_paused", sa.Boolean(), nullable=False),
        sa.Column("fees_swept", sa.Numeric(78, 0), nullable=False),
        sa.Column("fee_bps", sa.Integer(), nullable=True),
        sa.Column("min_weight", sa.BigInteger(), nullable=True),
        sa.Column("max_weight", sa.BigInteger(), nullable=True),
        sa.Column("dispute_window", sa.BigInteger(), nullable=True),
        sa.Column("void_delay", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("chain_id", name=op.f("pk_agent_venue")),
    )
    op.create_table(
        "oracle_round",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("round_id", sa.Numeric(78, 0), nullable=False),
        sa.Column("answer", sa.Numeric(78, 0), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "block_number", "log_index", name=op.f("pk_oracle_round")),
    )
    op.create_index("ix_oracle_round_feed", "oracle_round", ["chain_id", "feed", "updated_at"], unique=False)
    op.create_table(
        "oracle_measure",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("round_id", sa.Numeric(78, 0), nullable=False),
        sa.Column("quality", sa.SmallInteger(), nullable=False),
        sa.Column("start_cumulatives", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("end_cumulatives", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("liquidity", sa.ARRAY(sa.Numeric(78, 0)), nullable=False),
        sa.Column("quiet", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "block_number", "log_index", name=op.f("pk_oracle_measure")),
    )
    op.create_index("ix_oracle_measure_feed", "oracle_measure", ["chain_id", "feed", "round_id"], unique=True)
    op.create_table(
        "token_authorization",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("authorizer", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("token", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("recipient", sa.LargeBinary(), nullable=True),
        sa.Column("value", sa.Numeric(78, 0), nullable=True),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tx", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "state IN ('paid', 'unpaired', 'canceled')", name=op.f("ck_token_authorization_state_is_known")
        ),
        sa.CheckConstraint(
            "(state = 'paid') = (recipient IS NOT NULL)", name=op.f("ck_token_authorization_paid_has_a_recipient")
        ),
        sa.CheckConstraint(
            "(state = 'paid') = (value IS NOT NULL)", name=op.f("ck_token_authorization_paid_has_a_value")
        ),
        sa.PrimaryKeyConstraint("chain_id", "authorizer", "nonce", name=op.f("pk_token_authorization")),
    )
    op.create_index(
        "ix_token_authorization_block_number",
        "token_authorization",
        ["chain_id", "block_number", "log_index"],
        unique=False,
    )
    op.create_table(
        "pauser_guardian",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.LargeBinary(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("set_tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "account", name=op.f("pk_pauser_guardian")),
    )
    op.create_table(
        "pauser_act",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("log_index", sa.Integer(), nullable=False),
        sa.Column("account", sa.LargeBinary(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("tx", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "block_number", "log_index", name=op.f("pk_pauser_act")),
    )


def downgrade() -> None:
    op.drop_table("pauser_act")
    op.drop_table("pauser_guardian")
    op.drop_table("token_authorization")
    op.drop_table("oracle_measure")
    op.drop_table("oracle_round")
    op.drop_table("agent_venue")
    op.drop_table("agent_feed")
    op.drop_table("agent_role")
    op.drop_table("agent_fee_sweep")
    op.drop_table("agent_stake")
    op.drop_table("agent_outcome")
    op.drop_table("agent_market")
    op.drop_table("stock_venue")
    op.drop_table("stock_opener")
    op.drop_table("stock_feed")
    op.drop_table("stock_fee_sweep")
    op.drop_table("stock_position")
    op.drop_table("stock_vintage")
    op.drop_table("stock_market")
    op.drop_table("chain_audit")
    op.drop_table("chain_reorg")
    op.drop_table("chain_log_removed")
    op.drop_table("chain_log")
    op.drop_table("chain_block")
    op.drop_table("chain_cursor")

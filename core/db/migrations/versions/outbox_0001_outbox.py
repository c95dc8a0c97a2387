"""The transaction outbox: lanes, intents, signed transactions, history, and the triggers that keep them honest."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "outbox_0001"
down_revision = None
branch_labels = ("outbox",)
depends_on = "core_0001"

UINT256 = sa.Numeric(78, 0)
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "outbox_lane",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("groups", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("next_nonce", sa.BigInteger()),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("holder", sa.UUID()),
        sa.Column("holder_name", sa.Text()),
        sa.Column("lease_until", UTC),
        sa.Column("status", sa.Text(), server_default="starting", nullable=False),
        sa.Column("status_detail", sa.Text(), server_default="", nullable=False),
        sa.Column("balance_wei", UINT256),
        sa.Column("status_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_lane"),
        sa.UniqueConstraint("chain_id", "address", name="uq_outbox_lane_chain_id_address"),
        sa.CheckConstraint("next_nonce >= 0", name="nonce_is_a_count"),
        sa.CheckConstraint("(holder IS NULL) = (lease_until IS NULL)", name="holder_has_a_lease"),
    )
    op.create_table(
        "outbox_intent",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("lane_group", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("to_address", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("value_wei", UINT256, nullable=False),
        sa.Column("gas_limit", sa.BigInteger()),
        sa.Column("max_fee_cap_wei", UINT256),
        sa.Column("simulate", sa.Boolean(), nullable=False),
        sa.Column("replay_safe", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("not_after", sa.BigInteger()),
        sa.Column("depends_on", sa.BigInteger()),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.Column("reason_code", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("lane_id", sa.Integer()),
        sa.Column("nonce", sa.BigInteger()),
        sa.Column("tx_hash", sa.LargeBinary()),
        sa.Column("block_number", sa.BigInteger()),
        sa.Column("block_hash", sa.LargeBinary()),
        sa.Column("gas_used", sa.BigInteger()),
        sa.Column("fee_wei", UINT256),
        sa.Column("created_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("state_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.Column("mined_at", UTC),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_intent"),
        sa.UniqueConstraint("key", name="uq_outbox_intent_key"),
        sa.ForeignKeyConstraint(["depends_on"], ["outbox_intent.id"], name="fk_outbox_intent_depends_on"),
        sa.ForeignKeyConstraint(["lane_id"], ["outbox_lane.id"], name="fk_outbox_intent_lane_id"),
        sa.CheckConstraint(
            "state IN ('queued', 'signed', 'sent', 'mined', 'final', 'failed', 'replaced')", name="state_is_known"
        ),
        sa.CheckConstraint("outcome IN ('succeeded', 'reverted', 'cancelled')", name="outcome_is_known"),
        sa.CheckConstraint("state <> 'queued' OR nonce IS NULL", name="queued_has_no_nonce"),
        sa.CheckConstraint(
            "state NOT IN ('signed', 'sent', 'mined', 'final', 'replaced') OR "
            "(lane_id IS NOT NULL AND nonce IS NOT NULL AND tx_hash IS NOT NULL)",
            name="beyond_queued_has_a_transaction",
        ),
        sa.CheckConstraint(
            "state NOT IN ('mined', 'final', 'replaced') OR "
            "(outcome IS NOT NULL AND block_number IS NOT NULL AND block_hash IS NOT NULL)",
            name="mined_has_a_block",
        ),
        sa.CheckConstraint("state <> 'failed' OR reason IS NOT NULL", name="failed_says_why"),
        sa.CheckConstraint("depends_on < id", name="depends_on_an_earlier_one"),
    )
    op.create_index("uq_outbox_intent_lane_nonce", "outbox_intent", ["lane_id", "nonce"], unique=True)
    op.create_index(
        "ix_outbox_intent_queue",
        "outbox_intent",
        ["chain_id", "lane_group", sa.text("priority DESC"), "id"],
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_outbox_intent_live",
        "outbox_intent",
        ["lane_id"],
        postgresql_where=sa.text("state IN ('signed', 'sent', 'mined')"),
    )
    op.create_index(
        "ix_outbox_intent_spending",
        "outbox_intent",
        ["lane_id", "mined_at"],
        postgresql_where=sa.text("mined_at IS NOT NULL"),
    )
    op.create_table(
        "outbox_transaction",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("intent_id", sa.BigInteger(), nullable=False),
        sa.Column("lane_id", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=False),
        sa.Column("is_cancel", sa.Boolean(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("gas_limit", sa.BigInteger(), nullable=False),
        sa.Column("max_fee_wei", UINT256, nullable=False),
        sa.Column("max_priority_fee_wei", UINT256, nullable=False),
        sa.Column("signed_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_outbox_transaction"),
        sa.ForeignKeyConstraint(["intent_id"], ["outbox_intent.id"], name="fk_outbox_transaction_intent_id"),
        sa.ForeignKeyConstraint(["lane_id"], ["outbox_lane.id"], name="fk_outbox_transaction_lane_id"),
    )
    op.create_index("ix_outbox_transaction_intent_id", "outbox_transaction", ["intent_id"])
    op.create_table(
        "outbox_history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("intent_id", sa.BigInteger(), nullable=False),
        sa.Column("from_state", sa.Text()),
        sa.Column("to_state", sa.Text(), nullable=False),
        sa.Column("tx_hash", sa.LargeBinary()),
        sa.Column("reason", sa.Text()),
        sa.Column("at", UTC, server_default=sa.func.clock_timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_history"),
        sa.ForeignKeyConstraint(["intent_id"], ["outbox_intent.id"], name="fk_outbox_history_intent_id"),
    )
    op.create_index("ix_outbox_history_intent_id", "outbox_history", ["intent_id"])
    op.execute(QUEUED_FUNCTION)
    op.execute(QUEUED_TRIGGER)
    op.execute(MOVED_FUNCTION)
    op.execute(MOVED_TRIGGER)
    op.execute(KEPT_FUNCTION)
    op.execute(KEPT_TRIGGER.format(table="outbox_history"))
    op.execute(KEPT_TRIGGER.format(table="outbox_transaction"))


def downgrade() -> None:
    for table in ("outbox_history", "outbox_transaction", "outbox_intent", "outbox_lane"):
        op.drop_table(table)
    for function in ("outbox_intents_asked", "outbox_intents_moved", "outbox_rows_are_kept"):
        op.execute(f"DROP FUNCTION {function}()")


# Payload: `<chain id>:<lane group>`. Once per statement and group, however many intents it added.
QUEUED_FUNCTION = """
CREATE FUNCTION outbox_intents_asked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox_history (intent_id, to_state, tx_hash, reason)
        SELECT id, state, tx_hash, reason FROM added ORDER BY id;
    PERFORM pg_notify('outbox_queued', chain_id || ':' || lane_group)
        FROM (SELECT DISTINCT chain_id, lane_group FROM added WHERE state = 'queued') AS asked;
    RETURN NULL;
END $$
"""
QUEUED_TRIGGER = """
CREATE TRIGGER outbox_intent_asked AFTER INSERT ON outbox_intent
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION outbox_intents_asked()
"""

# Refuses a change of state that is not in core.outbox.states.TRANSITIONS, writes the history, and notifies.
# Payload: `<id>:<state>` joined by commas, 200 at a time, since a payload holds 8000 bytes.
MOVED_FUNCTION = """
CREATE FUNCTION outbox_intents_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong text;
BEGIN
    SELECT format('intent %s cannot go from %s to %s', o.id, o.state, n.state) INTO wrong
        FROM before AS o JOIN after AS n USING (id)
        WHERE o.state <> n.state AND (o.state, n.state) NOT IN (
            ('queued', 'signed'), ('queued', 'failed'),
            ('signed', 'sent'), ('signed', 'mined'), ('signed', 'queued'),
            ('sent', 'mined'), ('sent', 'queued'),
            ('mined', 'sent'), ('mined', 'final'), ('mined', 'failed'), ('mined', 'replaced'),
            ('final', 'sent'), ('failed', 'sent'), ('replaced', 'sent'), ('failed', 'queued'))
            -- only what never had a nonce may be asked for again
            OR (o.state = 'failed' AND n.state = 'queued' AND o.nonce IS NOT NULL)
        LIMIT 1;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = wrong;
    END IF;
    WITH moved AS (
        SELECT n.id, o.state AS was, n.state, n.tx_hash, n.reason
            FROM before AS o JOIN after AS n USING (id) WHERE o.state <> n.state
    ), written AS (
        INSERT INTO outbox_history (intent_id, from_state, to_state, tx_hash, reason)
            SELECT id, was, state, tx_hash, reason FROM moved ORDER BY id
    ), numbered AS (
        SELECT id, state, (row_number() OVER (ORDER BY id) - 1) / 200 AS part FROM moved
    ), told AS (
        SELECT string_agg(id || ':' || state, ',' ORDER BY id) AS payload FROM numbered GROUP BY part
    )
    SELECT count(pg_notify('outbox_state', payload)::text)::text INTO wrong FROM told;
    IF EXISTS (SELECT FROM before AS o JOIN after AS n USING (id) WHERE n.state = 'queued' AND o.state <> 'queued') THEN
        PERFORM pg_notify('outbox_queued', chain_id || ':' || lane_group)
            FROM (SELECT DISTINCT chain_id, lane_group FROM after WHERE state = 'queued') AS again;
    END IF;
    RETURN NULL;
END $$
"""
MOVED_TRIGGER = """
CREATE TRIGGER outbox_intent_moved AFTER UPDATE ON outbox_intent
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION outbox_intents_moved()
"""

KEPT_FUNCTION = """
CREATE FUNCTION outbox_rows_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = TG_TABLE_NAME || ' rows are never changed';
END $$
"""
KEPT_TRIGGER = """
CREATE TRIGGER {table}_rows_are_kept BEFORE UPDATE OR DELETE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_rows_are_kept()
"""

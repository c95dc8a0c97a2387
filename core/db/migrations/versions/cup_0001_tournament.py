"""The paper tournament: ledger, books, rounds, boards, and the functions that keep the ledger balanced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "cup_0001"
down_revision = None
branch_labels = ("cup",)
depends_on = "core_0001"

UTC = sa.DateTime(timezone=True)

# Entries come in whole transactions, one statement each; what does not sum to zero is refused, and balances follow.
POST = """
CREATE FUNCTION cup_post_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    unbalanced bigint;
    moved record;
BEGIN
    SELECT transaction_id INTO unbalanced FROM posted GROUP BY transaction_id HAVING sum(amount_cents) <> 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the entries of cup transaction % do not sum to zero', unbalanced
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_cup_entry_balanced', TABLE = 'cup_entry';
    END IF;
    -- Wallets first, in the order of their names; see the schema's word on locks.
    FOR moved IN
        SELECT account, sum(amount_cents) AS cents FROM posted GROUP BY account
        ORDER BY NOT starts_with(account, 'wallet:'), account
    LOOP
        UPDATE cup_account SET balance_cents = balance_cents + moved.cents WHERE account = moved.account;
    END LOOP;
    RETURN NULL;
END $$
"""

KEEP = """
CREATE FUNCTION cup_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
"""

# A balance follows from entries alone.
GUARD = """
CREATE FUNCTION cup_guard_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (TG_OP = 'INSERT' AND NEW.balance_cents <> 0) OR (TG_OP <> 'INSERT' AND pg_trigger_depth() < 2) THEN
        RAISE EXCEPTION 'balances move by entries only' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "cup_account",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("balance_cents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("opened_at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("account ~ '^(mint|(wallet|market|round):.+)$'", name="account_is_known"),
        sa.CheckConstraint("balance_cents >= 0 OR account = 'mint'", name="only_the_mint_owes"),
        sa.PrimaryKeyConstraint("account", name="pk_cup_account"),
    )
    op.create_table(
        "cup_enrolment",
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("issued_at", sa.Text(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("char_length(note) <= 280", name="note_is_short"),
        sa.PrimaryKeyConstraint("wallet", name="pk_cup_enrolment"),
    )
    op.create_table(
        "cup_house_wallet",
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("fleet", sa.Text(), nullable=False),
        sa.Column("added_at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("wallet ~ '^0x[0-9a-f]{40}$'", name="wallet_is_an_address"),
        sa.PrimaryKeyConstraint("wallet", name="pk_cup_house_wallet"),
    )
    op.create_table(
        "cup_market",
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("market_key", sa.LargeBinary(), nullable=False),
        sa.Column("market_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("short_title", sa.Text(), nullable=False),
        sa.Column("token_symbol", sa.Text(), nullable=False),
        sa.Column("outcomes", postgresql.JSONB(), nullable=False),
        sa.Column("weights_cents", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("net_cents", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("shares_cents", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("trades", sa.Integer(), server_default="0", nullable=False),
        sa.Column("opens_at", UTC, nullable=False),
        sa.Column("closes_at", UTC, nullable=False),
        sa.Column("start_at", UTC),
        sa.Column("ends_at", UTC, nullable=False),
        sa.Column("status", sa.Text(), server_default="open", nullable=False),
        sa.Column("winner", sa.SmallInteger()),
        sa.Column("settled_at", UTC),
        sa.CheckConstraint("(status = 'open') = (settled_at IS NULL)", name="settled_once"),
        sa.CheckConstraint("(status = 'resolved') = (winner IS NOT NULL)", name="resolved_has_a_winner"),
        sa.CheckConstraint("status IN ('open', 'resolved', 'void')", name="status_is_known"),
        sa.CheckConstraint(
            "cardinality(net_cents) = jsonb_array_length(outcomes) "
            "AND cardinality(shares_cents) = cardinality(net_cents) "
            "AND cardinality(weights_cents) = cardinality(net_cents)",
            name="a_book_of_its_outcomes",
        ),
        sa.CheckConstraint("0 < ALL (weights_cents)", name="every_outcome_weighs"),
        sa.CheckConstraint(
            "opens_at < closes_at AND closes_at < COALESCE(start_at, ends_at) "
            "AND COALESCE(start_at, ends_at) <= ends_at",
            name="trades_end_before_what_decides",
        ),
        sa.PrimaryKeyConstraint("slug", name="pk_cup_market"),
        sa.UniqueConstraint("market_id", name="uq_cup_market_market_id"),
        sa.UniqueConstraint("market_key", name="uq_cup_market_market_key"),
    )
    op.create_index(
        "ix_cup_market_open", "cup_market", ["closes_at"], unique=False, postgresql_where=sa.text("status = 'open'")
    )
    op.create_table(
        "cup_round",
        sa.Column("round_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("commitment", sa.LargeBinary(), nullable=False),
        sa.Column("opens_at", UTC, nullable=False),
        sa.Column("closes_at", UTC, nullable=False),
        sa.Column("ends_at", UTC, nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("head_number", sa.BigInteger(), nullable=False),
        sa.Column("beacon_after", sa.BigInteger(), nullable=False),
        sa.Column("beacon_number", sa.BigInteger()),
        sa.Column("beacon_hash", sa.LargeBinary()),
        sa.Column("pocket", sa.SmallInteger()),
        sa.Column("settled_at", UTC),
        sa.CheckConstraint("commitment = sha256(seed)", name="commits_to_its_seed"),
        sa.CheckConstraint(
            "num_nonnulls(beacon_number, beacon_hash, pocket, settled_at) IN (0, 4)", name="settled_with_its_result"
        ),
        sa.CheckConstraint("opens_at < closes_at AND closes_at <= ends_at", name="times_are_in_order"),
        sa.CheckConstraint("pocket BETWEEN 0 AND 36", name="pocket_is_on_the_wheel"),
        sa.PrimaryKeyConstraint("round_no", name="pk_cup_round"),
    )
    op.create_index(
        "uq_cup_round_live", "cup_round", ["chain_id"], unique=True, postgresql_where=sa.text("settled_at IS NULL")
    )
    op.create_table(
        "cup_score",
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("debit_cents", sa.BigInteger(), nullable=False),
        sa.Column("reached_at", UTC, nullable=False),
        sa.CheckConstraint("period ~ '^(all|[0-9]{4}-W[0-9]{2})$'", name="period_is_known"),
        sa.PrimaryKeyConstraint("period", "wallet", name="pk_cup_score"),
    )
    op.create_index("ix_cup_score_board", "cup_score", ["period", "debit_cents", "reached_at", "wallet"], unique=False)
    op.create_table(
        "cup_transaction",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('claim', 'trade', 'bet', 'market', 'round')", name="kind_is_known"),
        sa.CheckConstraint("starts_with(key, kind || ':')", name="key_names_its_kind"),
        sa.PrimaryKeyConstraint("id", name="pk_cup_transaction"),
        sa.UniqueConstraint("key", name="uq_cup_transaction_key"),
    )
    op.create_table(
        "cup_bet",
        sa.Column("round_no", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("bet_key", sa.Text(), nullable=False),
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("stake_cents", sa.BigInteger(), nullable=False),
        sa.Column("issued_at", sa.Text(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("balance_cents", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), server_default="open", nullable=False),
        sa.Column("paid_cents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
        sa.CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
        sa.CheckConstraint("stake_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
        sa.ForeignKeyConstraint(["round_no"], ["cup_round.round_no"], name="fk_cup_bet_round_no"),
        sa.ForeignKeyConstraint(["transaction_id"], ["cup_transaction.id"], name="fk_cup_bet_transaction_id"),
        sa.PrimaryKeyConstraint("round_no", "wallet", "bet_key", name="pk_cup_bet"),
        sa.UniqueConstraint("transaction_id", name="uq_cup_bet_transaction_id"),
    )
    op.create_index("ix_cup_bet_wallet", "cup_bet", ["wallet", "round_no"], unique=False)
    op.create_table(
        "cup_entry",
        sa.Column("transaction_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("amount_cents", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_cents <> 0", name="moves_something"),
        sa.ForeignKeyConstraint(["account"], ["cup_account.account"], name="fk_cup_entry_account"),
        sa.ForeignKeyConstraint(["transaction_id"], ["cup_transaction.id"], name="fk_cup_entry_transaction_id"),
        sa.PrimaryKeyConstraint("transaction_id", "account", name="pk_cup_entry"),
    )
    op.create_index("ix_cup_entry_account", "cup_entry", ["account", "transaction_id"], unique=False)
    op.create_table(
        "cup_position",
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("cost_cents", sa.BigInteger(), nullable=False),
        sa.Column("shares_cents", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), server_default="open", nullable=False),
        sa.Column("paid_cents", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("opened_at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
        sa.CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
        sa.CheckConstraint("cost_cents > 0 AND shares_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
        sa.ForeignKeyConstraint(["slug"], ["cup_market.slug"], name="fk_cup_position_slug"),
        sa.PrimaryKeyConstraint("wallet", "slug", "outcome", name="pk_cup_position"),
    )
    op.create_index("ix_cup_position_slug", "cup_position", ["slug"], unique=False)
    op.create_table(
        "cup_trade",
        sa.Column("trade_id", sa.Text(), nullable=False),
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("wallet", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("size_cents", sa.BigInteger(), nullable=False),
        sa.Column("shares_cents", sa.BigInteger(), nullable=False),
        sa.Column("issued_at", sa.Text(), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("balance_cents", sa.BigInteger(), nullable=False),
        sa.Column("projected_cents", sa.BigInteger(), nullable=False),
        sa.Column("pool_cents", sa.BigInteger(), nullable=False),
        sa.Column("at", UTC, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("size_cents > 0 AND shares_cents >= size_cents", name="amounts_are_positive"),
        sa.ForeignKeyConstraint(["slug"], ["cup_market.slug"], name="fk_cup_trade_slug"),
        sa.ForeignKeyConstraint(["transaction_id"], ["cup_transaction.id"], name="fk_cup_trade_transaction_id"),
        sa.PrimaryKeyConstraint("trade_id", name="pk_cup_trade"),
        sa.UniqueConstraint("transaction_id", name="uq_cup_trade_transaction_id"),
    )
    op.create_index("ix_cup_trade_slug", "cup_trade", ["slug", "transaction_id"], unique=False)
    op.create_index("ix_cup_trade_wallet", "cup_trade", ["wallet", "at"], unique=False)
    for function in (POST, KEEP, GUARD):
        op.execute(function)
    op.execute(
        "CREATE TRIGGER cup_entries_posted AFTER INSERT ON cup_entry REFERENCING NEW TABLE AS posted "
        "FOR EACH STATEMENT EXECUTE FUNCTION cup_post_entries()"
    )
    op.execute(
        "CREATE TRIGGER cup_balance_guarded BEFORE INSERT OR UPDATE ON cup_account "
        "FOR EACH ROW EXECUTE FUNCTION cup_guard_balance()"
    )
    for table in ("cup_entry", "cup_transaction"):
        op.execute(
            f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION cup_refuse_change()"
        )
    op.execute("INSERT INTO cup_account (account) VALUES ('mint')")


def downgrade() -> None:
    for table in (
        "cup_bet",
        "cup_trade",
        "cup_position",
        "cup_entry",
        "cup_transaction",
        "cup_score",
        "cup_round",
        "cup_market",
        "cup_house_wallet",
        "cup_enrolment",
        "cup_account",
    ):
        op.drop_table(table)
    for function in ("cup_post_entries", "cup_refuse_change", "cup_guard_balance"):
        op.execute(f"DROP FUNCTION {function}()")

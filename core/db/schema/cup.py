"""The tables of the paper tournament: a double-entry ledger, paper books, and roulette rounds. PostgreSQL is the only
record of the tournament.

Amounts and shares are integer cents of pUSDC; times are from our own clock. The ledger is append-only. All entries of a
transaction are inserted together. A trigger refuses transactions that do not sum to zero, and updates the balances.
Rows of `cup_transaction` and `cup_entry` are never changed or deleted (core/db/migrations/baseline/2_cup.sql).

Lock order: the round or market, then wallets sorted by account name, then all other rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import partial_index, table
from core.db.types import Hash32, UtcDateTime

# `mint`, `wallet:<address>`, `market:<slug>`, `round:<number>`. The mint's balance is not stored; it is minus the sum
# of all others.
cup_account = table(
    "cup_account",
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("balance_cents", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("opened_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("account ~ '^(mint|(wallet|market|round):.+)$'", name="account_is_known"),
    sa.CheckConstraint("balance_cents >= 0", name="balance_is_not_negative"),
)

# `key` makes a movement happen only once: `claim:<wallet>`, `trade:<id>`, `bet:<round>:<wallet>:<key>`,
# `market:<slug>`, `round:<number>`.
cup_transaction = table(
    "cup_transaction",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("kind IN ('claim', 'trade', 'bet', 'market', 'round')", name="kind_is_known"),
    sa.CheckConstraint("starts_with(key, kind || ':')", name="key_names_its_kind"),
)

cup_entry = table(
    "cup_entry",
    sa.Column(
        "transaction_id", sa.BigInteger, sa.ForeignKey("cup_transaction.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("account", sa.Text, sa.ForeignKey("cup_account.account"), primary_key=True),
    sa.Column("amount_cents", sa.BigInteger, nullable=False),
    sa.CheckConstraint("amount_cents <> 0", name="moves_something"),
    sa.Index("ix_cup_entry_account", "account", "transaction_id"),
)

# A paper market of a listed agent market. `weights_cents`, `net_cents` and `shares_cents` are its book, by outcome.
cup_market = table(
    "cup_market",
    sa.Column("slug", sa.Text, primary_key=True),
    sa.Column("market_key", Hash32, nullable=False, unique=True),  # the agent market's id on chain
    sa.Column("market_id", sa.Text, nullable=False, unique=True),  # the agent market's readable id
    sa.Column("kind", sa.SmallInteger, nullable=False),  # 0 threshold, 1 range, 2 direction
    sa.Column("question", sa.Text, nullable=False),
    sa.Column("short_title", sa.Text, nullable=False),
    sa.Column("token_symbol", sa.Text, nullable=False),
    sa.Column("outcomes", JSONB, nullable=False),  # [{key, label, shortLabel}], in the contract's order
    sa.Column("weights_cents", sa.ARRAY(sa.BigInteger), nullable=False),  # virtual: before any trade
    sa.Column("net_cents", sa.ARRAY(sa.BigInteger), nullable=False),
    sa.Column("shares_cents", sa.ARRAY(sa.BigInteger), nullable=False),
    sa.Column("trades", sa.Integer, nullable=False, server_default="0"),
    sa.Column("opens_at", UtcDateTime, nullable=False),
    sa.Column("closes_at", UtcDateTime, nullable=False),  # trades before here
    sa.Column("start_at", UtcDateTime),  # for a direction: the moment the end is compared with
    sa.Column("ends_at", UtcDateTime, nullable=False),  # the moment that decides
    sa.Column("status", sa.Text, nullable=False, server_default="open"),
    sa.Column("winner", sa.SmallInteger),
    sa.Column("settled_at", UtcDateTime),
    sa.CheckConstraint("status IN ('open', 'resolved', 'void')", name="status_is_known"),
    sa.CheckConstraint("(status = 'resolved') = (winner IS NOT NULL)", name="resolved_has_a_winner"),
    sa.CheckConstraint("(status = 'open') = (settled_at IS NULL)", name="settled_once"),
    sa.CheckConstraint("0 < ALL (weights_cents)", name="every_outcome_weighs"),
    sa.CheckConstraint(
        "cardinality(net_cents) = jsonb_array_length(outcomes) AND cardinality(shares_cents) = cardinality(net_cents) "
        "AND cardinality(weights_cents) = cardinality(net_cents)",
        name="a_book_of_its_outcomes",
    ),
    sa.CheckConstraint(
        "opens_at < closes_at AND closes_at < COALESCE(start_at, ends_at) AND COALESCE(start_at, ends_at) <= ends_at",
        name="trades_end_before_what_decides",
    ),
    partial_index("ix_cup_market_open", "closes_at", where="status = 'open'"),
)

# A wallet's holding of one outcome; trades add to it. Settled once, with its market.
cup_position = table(
    "cup_position",
    sa.Column("wallet", sa.Text, primary_key=True),
    sa.Column("slug", sa.Text, sa.ForeignKey("cup_market.slug"), primary_key=True),
    sa.Column("outcome", sa.SmallInteger, primary_key=True),
    sa.Column("cost_cents", sa.BigInteger, nullable=False),
    sa.Column("shares_cents", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Text, nullable=False, server_default="open"),
    sa.Column("paid_cents", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("opened_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
    sa.CheckConstraint("cost_cents > 0 AND shares_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
    sa.CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
    sa.Index("ix_cup_position_slug", "slug"),
)

# Signed trades with the amounts of their receipts. `issued_at` is the signed text.
cup_trade = table(
    "cup_trade",
    sa.Column("trade_id", sa.Text, primary_key=True),
    sa.Column("transaction_id", sa.BigInteger, sa.ForeignKey("cup_transaction.id"), nullable=False, unique=True),
    sa.Column("wallet", sa.Text, nullable=False),
    sa.Column("slug", sa.Text, sa.ForeignKey("cup_market.slug"), nullable=False),
    sa.Column("outcome", sa.SmallInteger, nullable=False),
    sa.Column("size_cents", sa.BigInteger, nullable=False),
    sa.Column("shares_cents", sa.BigInteger, nullable=False),
    sa.Column("issued_at", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
    sa.Column("balance_cents", sa.BigInteger, nullable=False),  # after the trade, like the next two
    sa.Column("projected_cents", sa.BigInteger, nullable=False),
    sa.Column("pool_cents", sa.BigInteger, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("size_cents > 0 AND shares_cents >= size_cents", name="amounts_are_positive"),
    sa.Index("ix_cup_trade_wallet", "wallet", "at"),
    sa.Index("ix_cup_trade_slug", "slug", "transaction_id"),
)

# A spin. The beacon is the hash of the first Base block whose time is at or after `beacon_after` (Unix seconds of the
# chain's clock); `head_number` was the chain's head when betting opened. The seed stays secret until `settled_at`.
cup_round = table(
    "cup_round",
    sa.Column("round_no", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("seed", Hash32, nullable=False),
    sa.Column("commitment", Hash32, nullable=False),
    sa.Column("opens_at", UtcDateTime, nullable=False),
    sa.Column("closes_at", UtcDateTime, nullable=False),
    sa.Column("ends_at", UtcDateTime, nullable=False),  # end of the spin; the next round opens then
    sa.Column("chain_id", sa.BigInteger, nullable=False),
    sa.Column("head_number", sa.BigInteger, nullable=False),
    sa.Column("beacon_after", sa.BigInteger, nullable=False),
    sa.Column("beacon_number", sa.BigInteger),
    sa.Column("beacon_hash", Hash32),
    sa.Column("pocket", sa.SmallInteger),
    sa.Column("settled_at", UtcDateTime),
    sa.Column("bets_hash", Hash32),  # published at the close
    sa.CheckConstraint("commitment = sha256(seed)", name="commits_to_its_seed"),
    sa.CheckConstraint("opens_at < closes_at AND closes_at <= ends_at", name="times_are_in_order"),
    sa.CheckConstraint("pocket BETWEEN 0 AND 36", name="pocket_is_on_the_wheel"),
    sa.CheckConstraint(
        "num_nonnulls(beacon_number, beacon_hash, pocket, settled_at) IN (0, 4)", name="settled_with_its_result"
    ),
    sa.CheckConstraint("settled_at IS NULL OR bets_hash IS NOT NULL", name="settled_with_its_bets"),
    # Only one live round: the next opens when the previous one is settled.
    partial_index("uq_cup_round_live", "chain_id", unique=True, where="settled_at IS NULL"),
)

cup_bet = table(
    "cup_bet",
    sa.Column("round_no", sa.BigInteger, sa.ForeignKey("cup_round.round_no"), primary_key=True, autoincrement=False),
    sa.Column("wallet", sa.Text, primary_key=True),
    sa.Column("bet_key", sa.Text, primary_key=True),
    sa.Column("transaction_id", sa.BigInteger, sa.ForeignKey("cup_transaction.id"), nullable=False, unique=True),
    sa.Column("stake_cents", sa.BigInteger, nullable=False),
    sa.Column("issued_at", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
    sa.Column("balance_cents", sa.BigInteger, nullable=False),  # after the bet
    sa.Column("status", sa.Text, nullable=False, server_default="open"),
    sa.Column("paid_cents", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
    sa.CheckConstraint("stake_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
    sa.CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
    sa.Index("ix_cup_bet_wallet", "wallet", "round_no"),
    # Settlement updates all bets of a round at once; with room for a second version on each page, the updates are HOT
    # and do not touch the indexes.
    postgresql_with={"fillfactor": 45},
)

# The boards: `period` is `all` or an ISO week such as `2026-W47`. `debit_cents` is minus the score, so that index order
# is board order: the largest profit first, ties to the earlier.
cup_score = table(
    "cup_score",
    sa.Column("period", sa.Text, primary_key=True),
    sa.Column("wallet", sa.Text, primary_key=True),
    sa.Column("debit_cents", sa.BigInteger, nullable=False),
    sa.Column("reached_at", UtcDateTime, nullable=False),
    sa.CheckConstraint("period ~ '^(all|[0-9]{4}-W[0-9]{2})$'", name="period_is_known"),
    sa.CheckConstraint("wallet ~ '^0x[0-9a-f]{40}$'", name="wallet_is_an_address"),
    sa.Index("ix_cup_score_board", "period", "debit_cents", "reached_at", "wallet"),
)

# How often each board has changed, so that readers can tell whether their copy is current.
cup_board = table(
    "cup_board",
    sa.Column("period", sa.Text, primary_key=True),
    sa.Column("changes", sa.BigInteger, nullable=False),
)

cup_enrolment = table(
    "cup_enrolment",
    sa.Column("wallet", sa.Text, primary_key=True),
    sa.Column("note", sa.Text, nullable=False, server_default=""),
    sa.Column("issued_at", sa.Text, nullable=False),
    sa.Column("signature", sa.LargeBinary, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("char_length(note) <= 280", name="note_is_short"),
)

# Wallets of the operator's own fleets, which cannot enroll, so a halt always applies to them.
cup_house_wallet = table(
    "cup_house_wallet",
    sa.Column("wallet", sa.Text, primary_key=True),
    sa.Column("fleet", sa.Text, nullable=False),
    sa.CheckConstraint("wallet ~ '^0x[0-9a-f]{40}$'", name="wallet_is_an_address"),
)

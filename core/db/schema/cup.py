"""The tables of the paper tournament: a double-entry ledger, paper books, and roulette rounds. PostgreSQL is the only
record of the tournament.

Amounts and shares are integer cents of pUSDC; times are from our own clock. The ledger is append-only. Entries are
inserted a whole transaction at a time, and a trigger refuses transactions that do not sum to zero and updates the
balances. Rows of `cup_transaction` and `cup_entry` are never changed or deleted
(core/db/migrations/baseline/2_cup.sql).

Lock order: round or market, then wallets in the order of their names, then all other rows.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import metadata
from core.db.types import Hash32, UtcDateTime

# `mint`, `wallet:<address>`, `market:<slug>`, `round:<number>`. The mint's balance is not stored; it is minus the sum
# of all others.
cup_account = Table(
    "cup_account",
    metadata,
    Column("account", Text, primary_key=True),
    Column("balance_cents", BigInteger, nullable=False, server_default="0"),
    Column("opened_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("account ~ '^(mint|(wallet|market|round):.+)$'", name="account_is_known"),
    CheckConstraint("balance_cents >= 0", name="balance_is_not_negative"),
)

# `key` makes a movement happen only once: `claim:<wallet>`, `trade:<id>`, `bet:<round>:<wallet>:<key>`,
# `market:<slug>`, `round:<number>`.
cup_transaction = Table(
    "cup_transaction",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("kind IN ('claim', 'trade', 'bet', 'market', 'round')", name="kind_is_known"),
    CheckConstraint("starts_with(key, kind || ':')", name="key_names_its_kind"),
)

cup_entry = Table(
    "cup_entry",
    metadata,
    Column("transaction_id", BigInteger, ForeignKey("cup_transaction.id"), primary_key=True, autoincrement=False),
    Column("account", Text, ForeignKey("cup_account.account"), primary_key=True),
    Column("amount_cents", BigInteger, nullable=False),
    CheckConstraint("amount_cents <> 0", name="moves_something"),
    Index("ix_cup_entry_account", "account", "transaction_id"),
)

# A paper market of a listed agent market. `weights_cents`, `net_cents` and `shares_cents` are its book, by outcome.
cup_market = Table(
    "cup_market",
    metadata,
    Column("slug", Text, primary_key=True),
    Column("market_key", Hash32, nullable=False, unique=True),  # the agent market's id on chain
    Column("market_id", Text, nullable=False, unique=True),  # the agent market's readable id
    Column("kind", SmallInteger, nullable=False),  # 0 threshold, 1 range, 2 direction
    Column("question", Text, nullable=False),
    Column("short_title", Text, nullable=False),
    Column("token_symbol", Text, nullable=False),
    Column("outcomes", JSONB, nullable=False),  # [{key, label, shortLabel}], in the contract's order
    Column("weights_cents", ARRAY(BigInteger), nullable=False),  # virtual: before any trade
    Column("net_cents", ARRAY(BigInteger), nullable=False),
    Column("shares_cents", ARRAY(BigInteger), nullable=False),
    Column("trades", Integer, nullable=False, server_default="0"),
    Column("opens_at", UtcDateTime, nullable=False),
    Column("closes_at", UtcDateTime, nullable=False),  # trades before here
    Column("start_at", UtcDateTime),  # for a direction: the moment the end is compared with
    Column("ends_at", UtcDateTime, nullable=False),  # the moment that decides
    Column("status", Text, nullable=False, server_default="open"),
    Column("winner", SmallInteger),
    Column("settled_at", UtcDateTime),
    CheckConstraint("status IN ('open', 'resolved', 'void')", name="status_is_known"),
    CheckConstraint("(status = 'resolved') = (winner IS NOT NULL)", name="resolved_has_a_winner"),
    CheckConstraint("(status = 'open') = (settled_at IS NULL)", name="settled_once"),
    CheckConstraint("0 < ALL (weights_cents)", name="every_outcome_weighs"),
    CheckConstraint(
        "cardinality(net_cents) = jsonb_array_length(outcomes) AND cardinality(shares_cents) = cardinality(net_cents) "
        "AND cardinality(weights_cents) = cardinality(net_cents)",
        name="a_book_of_its_outcomes",
    ),
    CheckConstraint(
        "opens_at < closes_at AND closes_at < COALESCE(start_at, ends_at) AND COALESCE(start_at, ends_at) <= ends_at",
        name="trades_end_before_what_decides",
    ),
    Index("ix_cup_market_open", "closes_at", postgresql_where=text("status = 'open'")),
)

# A wallet's holding of one outcome; trades add to it. Settled once, with its market.
cup_position = Table(
    "cup_position",
    metadata,
    Column("wallet", Text, primary_key=True),
    Column("slug", Text, ForeignKey("cup_market.slug"), primary_key=True),
    Column("outcome", SmallInteger, primary_key=True),
    Column("cost_cents", BigInteger, nullable=False),
    Column("shares_cents", BigInteger, nullable=False),
    Column("status", Text, nullable=False, server_default="open"),
    Column("paid_cents", BigInteger, nullable=False, server_default="0"),
    Column("opened_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
    CheckConstraint("cost_cents > 0 AND shares_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
    CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
    Index("ix_cup_position_slug", "slug"),
)

# Signed trades with the amounts of their receipts. `issued_at` is the signed text.
cup_trade = Table(
    "cup_trade",
    metadata,
    Column("trade_id", Text, primary_key=True),
    Column("transaction_id", BigInteger, ForeignKey("cup_transaction.id"), nullable=False, unique=True),
    Column("wallet", Text, nullable=False),
    Column("slug", Text, ForeignKey("cup_market.slug"), nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("size_cents", BigInteger, nullable=False),
    Column("shares_cents", BigInteger, nullable=False),
    Column("issued_at", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("balance_cents", BigInteger, nullable=False),  # after the trade, like the next two
    Column("projected_cents", BigInteger, nullable=False),
    Column("pool_cents", BigInteger, nullable=False),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("size_cents > 0 AND shares_cents >= size_cents", name="amounts_are_positive"),
    Index("ix_cup_trade_wallet", "wallet", "at"),
    Index("ix_cup_trade_slug", "slug", "transaction_id"),
)

# A spin. The beacon is the hash of the first Base block whose time is at or after `beacon_after` (Unix seconds of the
# chain's clock); `head_number` was the chain's head when betting opened. The seed stays secret until `settled_at`.
cup_round = Table(
    "cup_round",
    metadata,
    Column("round_no", BigInteger, primary_key=True, autoincrement=False),
    Column("seed", Hash32, nullable=False),
    Column("commitment", Hash32, nullable=False),
    Column("opens_at", UtcDateTime, nullable=False),
    Column("closes_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime, nullable=False),  # end of the spin; the next round opens then
    Column("chain_id", BigInteger, nullable=False),
    Column("head_number", BigInteger, nullable=False),
    Column("beacon_after", BigInteger, nullable=False),
    Column("beacon_number", BigInteger),
    Column("beacon_hash", Hash32),
    Column("pocket", SmallInteger),
    Column("settled_at", UtcDateTime),
    Column("bets_hash", Hash32),  # published at the close
    CheckConstraint("commitment = sha256(seed)", name="commits_to_its_seed"),
    CheckConstraint("opens_at < closes_at AND closes_at <= ends_at", name="times_are_in_order"),
    CheckConstraint("pocket BETWEEN 0 AND 36", name="pocket_is_on_the_wheel"),
    CheckConstraint(
        "num_nonnulls(beacon_number, beacon_hash, pocket, settled_at) IN (0, 4)", name="settled_with_its_result"
    ),
    CheckConstraint("settled_at IS NULL OR bets_hash IS NOT NULL", name="settled_with_its_bets"),
    # Only one live round: the next opens when the previous one is settled.
    Index("uq_cup_round_live", "chain_id", unique=True, postgresql_where=text("settled_at IS NULL")),
)

cup_bet = Table(
    "cup_bet",
    metadata,
    Column("round_no", BigInteger, ForeignKey("cup_round.round_no"), primary_key=True, autoincrement=False),
    Column("wallet", Text, primary_key=True),
    Column("bet_key", Text, primary_key=True),
    Column("transaction_id", BigInteger, ForeignKey("cup_transaction.id"), nullable=False, unique=True),
    Column("stake_cents", BigInteger, nullable=False),
    Column("issued_at", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("balance_cents", BigInteger, nullable=False),  # after the bet
    Column("status", Text, nullable=False, server_default="open"),
    Column("paid_cents", BigInteger, nullable=False, server_default="0"),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('open', 'won', 'lost', 'refunded')", name="status_is_known"),
    CheckConstraint("stake_cents > 0 AND paid_cents >= 0", name="amounts_are_positive"),
    CheckConstraint("status IN ('won', 'refunded') OR paid_cents = 0", name="paid_has_a_reason"),
    Index("ix_cup_bet_wallet", "wallet", "round_no"),
    # Settlement updates all bets of a round at once; with room for a second version on each page, the updates are HOT
    # and do not touch the indexes.
    postgresql_with={"fillfactor": 45},
)

# The boards: `period` is `all` or an ISO week such as `2026-W47`. `debit_cents` is minus the score, so that index order
# is board order: the largest profit first, ties to the earlier.
cup_score = Table(
    "cup_score",
    metadata,
    Column("period", Text, primary_key=True),
    Column("wallet", Text, primary_key=True),
    Column("debit_cents", BigInteger, nullable=False),
    Column("reached_at", UtcDateTime, nullable=False),
    CheckConstraint("period ~ '^(all|[0-9]{4}-W[0-9]{2})$'", name="period_is_known"),
    CheckConstraint("wallet ~ '^0x[0-9a-f]{40}$'", name="wallet_is_an_address"),
    Index("ix_cup_score_board", "period", "debit_cents", "reached_at", "wallet"),
)

# How often each board has changed, so that readers can tell whether their copy is current.
cup_board = Table(
    "cup_board",
    metadata,
    Column("period", Text, primary_key=True),
    Column("changes", BigInteger, nullable=False),
)

cup_enrolment = Table(
    "cup_enrolment",
    metadata,
    Column("wallet", Text, primary_key=True),
    Column("note", Text, nullable=False, server_default=""),
    Column("issued_at", Text, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("char_length(note) <= 280", name="note_is_short"),
)

# Wallets of the operator's own fleets, which cannot enroll, so a halt always applies to them.
cup_house_wallet = Table(
    "cup_house_wallet",
    metadata,
    Column("wallet", Text, primary_key=True),
    Column("fleet", Text, nullable=False),
    CheckConstraint("wallet ~ '^0x[0-9a-f]{40}$'", name="wallet_is_an_address"),
)

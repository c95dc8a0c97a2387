"""Projections of the stock side: books, vintages and positions, folded from logs. Only the indexer writes these tables.

Amounts are token units (6 decimals); accumulators are scaled by 1e18; answers have 8 decimals; times are Unix seconds.
`core.stock.projection` converts rows to the values of `core.stock.vested`. That module computes everything else
(accepted, refused, accrued, settlement) exactly as the contract does. `*_block`, `*_at` and `*_tx` are the block, time
and transaction of an event.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Index, Integer, SmallInteger, Table, Text, text

from core.contracts.statuses import Family
from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256
from core.stock.vested import DOWN, UP

_PAID_FOR = (
    f"CASE WHEN voided THEN principal_up + principal_down WHEN winner = {UP} THEN principal_up ELSE principal_down END"
)
# Settled, but not all principal is paid: the winner's, or both sides' if void.
UNPAID = f"closed_tx IS NOT NULL AND paid_principal < {_PAID_FOR}"
# Markets with positions that may be owed something; for all others everything is sent, or nothing is due yet.
OWING = f"pending_vintage IS NOT NULL OR refused > refunded OR ({UNPAID})"
# All winners are paid, and the residue of the pool is not claimed yet.
DUSTY = (
    "residue_tx IS NULL AND winner IS NOT NULL AND principal_up + principal_down > paid + fees "
    f"AND paid_principal >= {_PAID_FOR}"
)

stock_market = Table(
    "stock_market",
    metadata,
    Column("market_id", BigInteger, primary_key=True, autoincrement=False),
    # Terms
    Column("opener", Address, nullable=False),
    Column("resolver", Address, nullable=False),
    Column("freeze_time", ChainTime, nullable=False),
    Column("void_delay", BigInteger, nullable=False),
    Column("fee_bps", Integer, nullable=False),
    Column("kappa", BigInteger, nullable=False),
    Column("seed_per_leg", Uint256, nullable=False),
    Column("min_entry", Uint256, nullable=False),
    Column("max_entry", Uint256, nullable=False),
    Column("side_cap", Uint256, nullable=False),
    # Books, as stored on chain: without the pending vintage
    Column("principal_up", Uint256, nullable=False),
    Column("principal_down", Uint256, nullable=False),
    Column("acc_up", Uint256, nullable=False),
    Column("acc_down", Uint256, nullable=False),
    Column("pending_vintage", BlockNumber),  # not finalized on chain; contracts' block.number
    Column("pending_up", Uint256, nullable=False),
    Column("pending_down", Uint256, nullable=False),
    # Status
    Column("winner", SmallInteger),  # 0 UP, 1 DOWN; NULL while open and when void
    Column("voided", Boolean, nullable=False),
    Column("paid_principal", Uint256, nullable=False),
    Column("paid", Uint256, nullable=False),  # settlement payouts sent, after fees
    Column("fees", Uint256, nullable=False),
    Column("refused", Uint256, nullable=False),  # of finalized vintages, sent back or not
    Column("refunded", Uint256, nullable=False),  # the part of it that was sent back
    Column("residue_claimed", Uint256, nullable=False),
    Column("positions", Integer, nullable=False),  # including the two seed positions
    Column("vintages", Integer, nullable=False),  # without the seed
    Column("created_block", BlockNumber, nullable=False),
    Column("created_at", ChainTime, nullable=False),
    Column("created_tx", Hash32, nullable=False),
    Column("closed_block", BlockNumber),  # resolved or voided
    Column("closed_at", ChainTime),
    Column("closed_tx", Hash32),
    Column("residue_tx", Hash32),
    # As listed (MarketOpened); NULL for a market the lister did not open
    Column("spec_id", Hash32),
    Column("feed", Address),
    Column("ticker", Text),
    Column("family", SmallInteger),  # 0 daily, 1 weekly, 2 drill
    # The settlement spec (SpecRegistered)
    Column("stock_token", Address),
    Column("strike_time", ChainTime),
    Column("final_time", ChainTime),
    Column("max_strike_age", BigInteger),
    Column("max_final_age", BigInteger),
    # The settlement (Settled); NULL if voided by the timeout
    Column("outcome", SmallInteger),  # 0 UP, 1 DOWN, 2 FLAT, 3 VOID
    Column("reason", SmallInteger),  # 0 none, 1 flat, 2 stale, 3 paused, 4 bad answer
    Column("strike_round", Uint256),
    Column("strike_answer", Int256),
    Column("strike_round_at", ChainTime),
    Column("final_round", Uint256),
    Column("final_answer", Int256),
    Column("final_round_at", ChainTime),
    Column("updated_block", BlockNumber, nullable=False),
    CheckConstraint(f"winner IN ({UP}, {DOWN})", name="winner_is_a_side"),
    CheckConstraint("NOT (voided AND winner IS NOT NULL)", name="void_has_no_winner"),
    CheckConstraint("(closed_tx IS NOT NULL) = (voided OR winner IS NOT NULL)", name="closed_once"),
    CheckConstraint("pending_vintage IS NOT NULL OR (pending_up = 0 AND pending_down = 0)", name="pending_has_a_block"),
    # For the API: unsettled markets, the newest settled ones, those with unpaid winners, changes since a block, and the
    # refund drills; and for the keeper: markets that need work, however long the history.
    Index("ix_stock_market_open", "market_id", postgresql_where=text("closed_tx IS NULL")),
    Index("ix_stock_market_closed", "closed_at", "market_id", postgresql_where=text("closed_tx IS NOT NULL")),
    Index("ix_stock_market_unpaid", "market_id", postgresql_where=text(UNPAID)),
    Index("ix_stock_market_owing", "market_id", postgresql_where=text(OWING)),
    Index("ix_stock_market_dusty", "market_id", postgresql_where=text(DUSTY)),
    Index("ix_stock_market_updated", "updated_block"),
    Index("ix_stock_market_drill", "market_id", postgresql_where=text(f"family = {Family.DRILL:d}")),
)

# The entries of one market in one block.number; the seed's is 0. Accepted amounts and entry accumulators are NULL until
# it is finalized on chain; core.stock.vested computes them earlier, as the contract's views do.
stock_vintage = Table(
    "stock_vintage",
    metadata,
    Column("market_id", BigInteger, primary_key=True),
    Column("vintage", BlockNumber, primary_key=True),
    Column("offered_up", Uint256, nullable=False),
    Column("offered_down", Uint256, nullable=False),
    Column("accepted_up", Uint256),
    Column("accepted_down", Uint256),
    Column("entry_acc_up", Uint256),
    Column("entry_acc_down", Uint256),
)

stock_position = Table(
    "stock_position",
    metadata,
    Column("position_id", BigInteger, primary_key=True, autoincrement=False),
    Column("market_id", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),  # order of entry in its market, from 0; the seed is 0 and 1
    Column("owner", Address, nullable=False),  # the current holder, who is paid
    Column("entered_by", Address, nullable=False),  # the bettor, even if transferred since
    Column("outcome", SmallInteger, nullable=False),  # 0 UP, 1 DOWN
    Column("offered", Uint256, nullable=False),
    Column("vintage", BlockNumber, nullable=False),
    Column("offered_before", Uint256, nullable=False),  # earlier offers on its side of its vintage
    Column("claimed", Boolean, nullable=False),
    Column("refunded", Boolean, nullable=False),
    Column("payout", Uint256, nullable=False),  # sent for its accepted part, after the fee
    Column("fee", Uint256, nullable=False),
    Column("refund", Uint256, nullable=False),
    Column("entered_block", BlockNumber, nullable=False),
    Column("entered_at", ChainTime, nullable=False),
    Column("entry_tx", Hash32, nullable=False),
    Column("payout_at", ChainTime),
    Column("payout_tx", Hash32),
    Column("failed_deliveries", Integer, nullable=False),
    Column("failed_tx", Hash32),  # the last delivery the token refused
    CheckConstraint(f"outcome IN ({UP}, {DOWN})", name="outcome_is_a_side"),
    Index("ix_stock_position_market", "market_id", "vintage", "ordinal", unique=True),  # in the order of entry
    Index("ix_stock_position_owner", "owner", "entered_block", "position_id"),  # an owner's, newest first, by pages
    # The latest bets; the seed is no bet.
    Index("ix_stock_position_bet", "entered_at", "position_id", postgresql_where=text("vintage > 0")),
    # Positions are mostly updated once, all of a market together when paid; with room for a second version on each
    # page, the updates are HOT and do not touch the indexes.
    postgresql_with={"fillfactor": 50},
)

# Sums of the rows above, maintained by indexer.store.sums and valid once chain_cursor says `summed`.

# Each owner's positions by listed market and side; under market 0, those in all settled markets. Totals are thus read
# from few rows, however many positions an owner has.
stock_holding = Table(
    "stock_holding",
    metadata,
    Column("owner", Address, primary_key=True),
    Column("market_id", BigInteger, primary_key=True),
    Column("outcome", SmallInteger, primary_key=True),  # 0 under market 0
    Column("positions", Integer, nullable=False),
    Column("offered", Uint256, nullable=False),
    Column("pending", Uint256, nullable=False),  # offered in the vintage not yet matched on chain
    Column("refused", Uint256, nullable=False),  # of matched vintages, sent back or not
    Column("weight", Uint256, nullable=False),  # accepted amounts, each times its vintage's entry accumulator
    Column("due", Uint256, nullable=False),  # settlement payouts after the fee, sent or not
    Column("payout", Uint256, nullable=False),  # the part of `due` that was sent
    Column("refund", Uint256, nullable=False),  # the part of `refused` that was sent back
)

# Listed markets by their family.
stock_total = Table(
    "stock_total",
    metadata,
    Column("family", SmallInteger, primary_key=True, autoincrement=False),
    Column("markets", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False),  # resolved or void
    Column("resolved", BigInteger, nullable=False),
    Column("seeded", Uint256, nullable=False),
    Column("principal", Uint256, nullable=False),  # both books as stored, without a pending vintage
    Column("fees", Uint256, nullable=False),
    Column("paid", Uint256, nullable=False),
)

# Positions, without the seeds, by who entered them.
stock_bettor = Table(
    "stock_bettor",
    metadata,
    Column("entered_by", Address, primary_key=True),
    Column("bets", BigInteger, nullable=False),
    Column("offered", Uint256, nullable=False),
    Column("payout", Uint256, nullable=False),
)

# All of `stock_bettor`, in one row.
stock_betting = Table(
    "stock_betting",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # 1
    Column("wallets", BigInteger, nullable=False),
    Column("bets", BigInteger, nullable=False),
    Column("offered", Uint256, nullable=False),
    Column("payout", Uint256, nullable=False),
)

stock_fee_sweep = Table(
    "stock_fee_sweep",
    metadata,
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("amount", Uint256, nullable=False),
    Column("at", ChainTime, nullable=False),
    Column("tx", Hash32, nullable=False),
)

# Feeds as the lister's owner last set them.
stock_feed = Table(
    "stock_feed",
    metadata,
    Column("feed", Address, primary_key=True),
    Column("stock_token", Address, nullable=False),
    Column("ticker", Text, nullable=False),
    Column("max_strike_age", BigInteger, nullable=False),
    Column("max_final_age", BigInteger, nullable=False),
    Column("side_cap", Uint256, nullable=False),
    Column("allowed", Boolean, nullable=False),
)

stock_opener = Table(
    "stock_opener",
    metadata,
    Column("opener", Address, primary_key=True),
    Column("allowed", Boolean, nullable=False),
)

# One row, once the contracts have emitted an event of it.
stock_venue = Table(
    "stock_venue",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("entries_paused", Boolean, nullable=False),
    Column("fees_swept", Uint256, nullable=False),
)

"""Projections of the stock side: books, vintages and positions, folded from logs. Only the indexer writes these tables.

Amounts are token units (6 decimals); accumulators are scaled by 1e18; answers have 8 decimals; times are Unix seconds.
`core.stock.projection` converts rows to the values of `core.stock.vested`. That module computes everything else
(accepted, refused and accrued amounts, and the settlement) exactly as the contract does. `*_block`, `*_at` and `*_tx`
are the block, time and transaction of an event.
"""

from __future__ import annotations

import sqlalchemy as sa

from core.contracts.statuses import Family
from core.db.schema import partial_index, table
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

stock_market = table(
    "stock_market",
    sa.Column("market_id", sa.BigInteger, primary_key=True, autoincrement=False),
    # Terms
    sa.Column("opener", Address, nullable=False),
    sa.Column("resolver", Address, nullable=False),
    sa.Column("freeze_time", ChainTime, nullable=False),
    sa.Column("void_delay", sa.BigInteger, nullable=False),
    sa.Column("fee_bps", sa.Integer, nullable=False),
    sa.Column("kappa", sa.BigInteger, nullable=False),
    sa.Column("seed_per_leg", Uint256, nullable=False),
    sa.Column("min_entry", Uint256, nullable=False),
    sa.Column("max_entry", Uint256, nullable=False),
    sa.Column("side_cap", Uint256, nullable=False),
    # Books, as stored on chain: without the pending vintage
    sa.Column("principal_up", Uint256, nullable=False),
    sa.Column("principal_down", Uint256, nullable=False),
    sa.Column("acc_up", Uint256, nullable=False),
    sa.Column("acc_down", Uint256, nullable=False),
    sa.Column("pending_vintage", BlockNumber),  # not finalized on chain; contracts' block.number
    sa.Column("pending_up", Uint256, nullable=False),
    sa.Column("pending_down", Uint256, nullable=False),
    # Status
    sa.Column("winner", sa.SmallInteger),  # 0 UP, 1 DOWN; NULL while open and when void
    sa.Column("voided", sa.Boolean, nullable=False),
    sa.Column("paid_principal", Uint256, nullable=False),
    sa.Column("paid", Uint256, nullable=False),  # settlement payouts sent, after fees
    sa.Column("fees", Uint256, nullable=False),
    sa.Column("refused", Uint256, nullable=False),  # of finalized vintages, sent back or not
    sa.Column("refunded", Uint256, nullable=False),  # the part of it that was sent back
    sa.Column("residue_claimed", Uint256, nullable=False),
    sa.Column("positions", sa.Integer, nullable=False),  # including the two seed positions
    sa.Column("vintages", sa.Integer, nullable=False),  # without the seed
    sa.Column("created_block", BlockNumber, nullable=False),
    sa.Column("created_at", ChainTime, nullable=False),
    sa.Column("created_tx", Hash32, nullable=False),
    sa.Column("closed_block", BlockNumber),  # resolved or voided
    sa.Column("closed_at", ChainTime),
    sa.Column("closed_tx", Hash32),
    sa.Column("residue_tx", Hash32),
    # As listed (MarketOpened); NULL for a market the lister did not open
    sa.Column("spec_id", Hash32),
    sa.Column("feed", Address),
    sa.Column("ticker", sa.Text),
    sa.Column("family", sa.SmallInteger),  # 0 daily, 1 weekly, 2 drill
    # The settlement spec (SpecRegistered)
    sa.Column("stock_token", Address),
    sa.Column("strike_time", ChainTime),
    sa.Column("final_time", ChainTime),
    sa.Column("max_strike_age", sa.BigInteger),
    sa.Column("max_final_age", sa.BigInteger),
    # The settlement (Settled); NULL if voided by the timeout
    sa.Column("outcome", sa.SmallInteger),  # 0 UP, 1 DOWN, 2 FLAT, 3 VOID
    sa.Column("reason", sa.SmallInteger),  # 0 none, 1 flat, 2 stale, 3 paused, 4 bad answer
    sa.Column("strike_round", Uint256),
    sa.Column("strike_answer", Int256),
    sa.Column("strike_round_at", ChainTime),
    sa.Column("final_round", Uint256),
    sa.Column("final_answer", Int256),
    sa.Column("final_round_at", ChainTime),
    sa.Column("updated_block", BlockNumber, nullable=False),
    sa.CheckConstraint(f"winner IN ({UP}, {DOWN})", name="winner_is_a_side"),
    sa.CheckConstraint("NOT (voided AND winner IS NOT NULL)", name="void_has_no_winner"),
    sa.CheckConstraint("(closed_tx IS NOT NULL) = (voided OR winner IS NOT NULL)", name="closed_once"),
    sa.CheckConstraint(
        "pending_vintage IS NOT NULL OR (pending_up = 0 AND pending_down = 0)", name="pending_has_a_block"
    ),
    # For the API: unsettled markets, the newest settled ones, those with unpaid winners, changes since a block, and the
    # refund drills; and for the keeper: markets that need work, however long the history.
    partial_index("ix_stock_market_open", "market_id", where="closed_tx IS NULL"),
    partial_index("ix_stock_market_closed", "closed_at", "market_id", where="closed_tx IS NOT NULL"),
    partial_index("ix_stock_market_unpaid", "market_id", where=UNPAID),
    partial_index("ix_stock_market_owing", "market_id", where=OWING),
    partial_index("ix_stock_market_dusty", "market_id", where=DUSTY),
    sa.Index("ix_stock_market_updated", "updated_block"),
    partial_index("ix_stock_market_drill", "market_id", where=f"family = {Family.DRILL:d}"),
)

# The entries of one market in one block.number; the seed's is 0. Accepted amounts and entry accumulators are NULL until
# it is finalized on chain; core.stock.vested computes them earlier, as the contract's views do.
stock_vintage = table(
    "stock_vintage",
    sa.Column("market_id", sa.BigInteger, primary_key=True),
    sa.Column("vintage", BlockNumber, primary_key=True),
    sa.Column("offered_up", Uint256, nullable=False),
    sa.Column("offered_down", Uint256, nullable=False),
    sa.Column("accepted_up", Uint256),
    sa.Column("accepted_down", Uint256),
    sa.Column("entry_acc_up", Uint256),
    sa.Column("entry_acc_down", Uint256),
)

stock_position = table(
    "stock_position",
    sa.Column("position_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("market_id", sa.BigInteger, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),  # order of entry in its market, from 0; the seed is 0 and 1
    sa.Column("owner", Address, nullable=False),  # the current holder, who is paid
    sa.Column("entered_by", Address, nullable=False),  # the bettor, even if transferred since
    sa.Column("outcome", sa.SmallInteger, nullable=False),  # 0 UP, 1 DOWN
    sa.Column("offered", Uint256, nullable=False),
    sa.Column("vintage", BlockNumber, nullable=False),
    sa.Column("offered_before", Uint256, nullable=False),  # earlier offers on its side of its vintage
    sa.Column("claimed", sa.Boolean, nullable=False),
    sa.Column("refunded", sa.Boolean, nullable=False),
    sa.Column("payout", Uint256, nullable=False),  # sent for its accepted part, after the fee
    sa.Column("fee", Uint256, nullable=False),
    sa.Column("refund", Uint256, nullable=False),
    sa.Column("entered_block", BlockNumber, nullable=False),
    sa.Column("entered_at", ChainTime, nullable=False),
    sa.Column("entry_tx", Hash32, nullable=False),
    sa.Column("payout_at", ChainTime),
    sa.Column("payout_tx", Hash32),
    sa.Column("failed_deliveries", sa.Integer, nullable=False),
    sa.Column("failed_tx", Hash32),  # the last delivery the token refused
    sa.CheckConstraint(f"outcome IN ({UP}, {DOWN})", name="outcome_is_a_side"),
    sa.Index("ix_stock_position_market", "market_id", "vintage", "ordinal", unique=True),  # in the order of entry
    sa.Index("ix_stock_position_owner", "owner", "entered_block", "position_id"),  # an owner's, newest first, by pages
    # The latest bets; the seed is no bet.
    partial_index("ix_stock_position_bet", "entered_at", "position_id", where="vintage > 0"),
    # Positions are mostly updated once, all of a market together when paid; with room for a second version on each
    # page, the updates are HOT and do not touch the indexes.
    postgresql_with={"fillfactor": 50},
)

# Sums of the rows above, maintained by indexer.store.sums and valid once chain_cursor says `summed`.

# Each owner's positions by listed market and side; under market 0, those in all settled markets. Totals are thus read
# from few rows, however many positions an owner has.
stock_holding = table(
    "stock_holding",
    sa.Column("owner", Address, primary_key=True),
    sa.Column("market_id", sa.BigInteger, primary_key=True),
    sa.Column("outcome", sa.SmallInteger, primary_key=True),  # 0 under market 0
    sa.Column("positions", sa.Integer, nullable=False),
    sa.Column("offered", Uint256, nullable=False),
    sa.Column("pending", Uint256, nullable=False),  # offered in the vintage not yet matched on chain
    sa.Column("refused", Uint256, nullable=False),  # of matched vintages, sent back or not
    sa.Column("weight", Uint256, nullable=False),  # accepted amounts, each times its vintage's entry accumulator
    sa.Column("due", Uint256, nullable=False),  # settlement payouts after the fee, sent or not
    sa.Column("payout", Uint256, nullable=False),  # the part of `due` that was sent
    sa.Column("refund", Uint256, nullable=False),  # the part of `refused` that was sent back
)

# Listed markets by their family.
stock_total = table(
    "stock_total",
    sa.Column("family", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("markets", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger, nullable=False),  # resolved or void
    sa.Column("resolved", sa.BigInteger, nullable=False),
    sa.Column("seeded", Uint256, nullable=False),
    sa.Column("principal", Uint256, nullable=False),  # both books as stored, without a pending vintage
    sa.Column("fees", Uint256, nullable=False),
    sa.Column("paid", Uint256, nullable=False),
)

# Positions, without the seeds, by who entered them.
stock_bettor = table(
    "stock_bettor",
    sa.Column("entered_by", Address, primary_key=True),
    sa.Column("bets", sa.BigInteger, nullable=False),
    sa.Column("offered", Uint256, nullable=False),
    sa.Column("payout", Uint256, nullable=False),
)

# All of `stock_bettor`, in one row.
stock_betting = table(
    "stock_betting",
    sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),  # 1
    sa.Column("wallets", sa.BigInteger, nullable=False),
    sa.Column("bets", sa.BigInteger, nullable=False),
    sa.Column("offered", Uint256, nullable=False),
    sa.Column("payout", Uint256, nullable=False),
)

stock_fee_sweep = table(
    "stock_fee_sweep",
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("at", ChainTime, nullable=False),
    sa.Column("tx", Hash32, nullable=False),
)

# Feeds as the lister's owner last set them.
stock_feed = table(
    "stock_feed",
    sa.Column("feed", Address, primary_key=True),
    sa.Column("stock_token", Address, nullable=False),
    sa.Column("ticker", sa.Text, nullable=False),
    sa.Column("max_strike_age", sa.BigInteger, nullable=False),
    sa.Column("max_final_age", sa.BigInteger, nullable=False),
    sa.Column("side_cap", Uint256, nullable=False),
    sa.Column("allowed", sa.Boolean, nullable=False),
)

stock_opener = table(
    "stock_opener",
    sa.Column("opener", Address, primary_key=True),
    sa.Column("allowed", sa.Boolean, nullable=False),
)

# One row, once the contracts have emitted an event of it.
stock_venue = table(
    "stock_venue",
    sa.Column("chain_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("entries_paused", sa.Boolean, nullable=False),
    sa.Column("fees_swept", Uint256, nullable=False),
)

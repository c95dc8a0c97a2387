"""Projections of the agent contracts: markets, outcome books, stakes with their odds, payouts, and the Safe's settings.

Amounts, weights and shares are token units (6 decimals); prices are wads (1e18 is one); feed values have 8 decimals;
times are Unix seconds. Only the indexer writes these tables. `*_block`, `*_at` and `*_tx` are the block, time and
transaction of an event.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema import partial_index, table
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256

OPEN, RESOLVED, VOID = (int(AgentMarketStatus[name]) for name in ("OPEN", "RESOLVED", "VOID"))
IN_BOOK, OWED_BACK, PAID, REFUNDED = (int(StakeStatus[name]) for name in ("IN_BOOK", "OWED_BACK", "PAID", "REFUNDED"))

agent_market = table(
    "agent_market",
    sa.Column("market_id", Hash32, primary_key=True),
    sa.Column("index", sa.Integer, nullable=False),  # in opening order, from 1: the high half of its stakes' ids
    # The lister's specification
    sa.Column("kind", sa.SmallInteger, nullable=False),  # MarketKind
    sa.Column("feed", Address, nullable=False),
    sa.Column("target", Int256, nullable=False),
    sa.Column("bounds", sa.ARRAY(sa.Numeric(78, 0)), nullable=False),
    sa.Column("early_resolvable", sa.Boolean, nullable=False),
    sa.Column("opens_at", ChainTime, nullable=False),
    sa.Column("closes_at", ChainTime, nullable=False),  # stakes before here
    sa.Column("start_at", ChainTime, nullable=False),  # direction only, else 0
    sa.Column("ends_at", ChainTime, nullable=False),  # the moment that decides
    sa.Column("outcomes", sa.SmallInteger, nullable=False),
    sa.Column("weights", sa.ARRAY(sa.Numeric(78, 0)), nullable=False),  # virtual weight of each outcome
    # The terms under the Safe's bounds
    sa.Column("fee_bps", sa.Integer, nullable=False),
    sa.Column("pot_cap", Uint256, nullable=False),
    sa.Column("published", sa.Boolean, nullable=False),  # its feed has a publisher
    sa.Column("max_age", sa.BigInteger, nullable=False),
    sa.Column("early_from", ChainTime, nullable=False),  # early-resolvable only, else 0
    sa.Column("settles_after", ChainTime, nullable=False),
    sa.Column("voids_after", ChainTime, nullable=False),
    # The lister's metadata. `document` is its JSON, NULL unless it is an object; `slug` is the id in it, NULL unless
    # the market's key is its hash.
    sa.Column("lister", Address, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("document", JSONB),
    sa.Column("slug", sa.Text),
    # Totals
    sa.Column("staked", Uint256, nullable=False),  # fee included
    sa.Column("net_pool", Uint256, nullable=False),  # less fees: what winners split
    sa.Column("stakes", sa.Integer, nullable=False),  # in the book
    sa.Column("late_payments", sa.Integer, nullable=False),  # credited too late: owed back, never in the book
    sa.Column("paid_out", Uint256, nullable=False),  # to winners
    sa.Column("paid_shares", Uint256, nullable=False),
    sa.Column("given_back", Uint256, nullable=False),  # refunds sent
    # Stakes with a payout or refund that is not sent yet
    sa.Column("unpaid", sa.Integer, nullable=False, server_default="0"),
    # Its end
    sa.Column("status", sa.SmallInteger, nullable=False),  # AgentMarketStatus
    sa.Column("winner", sa.SmallInteger),
    sa.Column("void_reason", sa.SmallInteger),
    # The deciding readings; NULL if not used
    sa.Column("end_round", Uint256),
    sa.Column("end_answer", Int256),
    sa.Column("end_updated_at", ChainTime),
    sa.Column("start_round", Uint256),
    sa.Column("start_answer", Int256),
    sa.Column("start_updated_at", ChainTime),
    sa.Column("closed_block", BlockNumber),
    sa.Column("closed_at", ChainTime),
    sa.Column("closed_tx", Hash32),
    sa.Column("listed_block", BlockNumber, nullable=False),
    sa.Column("listed_log_index", sa.Integer, nullable=False),
    sa.Column("listed_at", ChainTime, nullable=False),
    sa.Column("listed_tx", Hash32, nullable=False),
    sa.Column("updated_block", BlockNumber, nullable=False),
    sa.CheckConstraint(f"status IN ({OPEN}, {RESOLVED}, {VOID})", name="status_is_known"),
    sa.CheckConstraint(f"(status = {RESOLVED}) = (winner IS NOT NULL)", name="resolved_has_a_winner"),
    sa.CheckConstraint(f"(status = {VOID}) = (void_reason IS NOT NULL)", name="void_has_a_reason"),
    sa.CheckConstraint(f"(status = {OPEN}) = (closed_tx IS NULL)", name="closed_once"),
    sa.Index("ix_agent_market_index", "index", unique=True),
    sa.Index("ix_agent_market_slug", "slug"),
    # For the API: open markets, the newest settled ones, changes since a block; and pages of settled markets by feed,
    # kind and close of betting.
    partial_index("ix_agent_market_open", "market_id", where=f"status = {OPEN}"),
    partial_index("ix_agent_market_closed", "closed_at", "market_id", where=f"status <> {OPEN}"),
    sa.Index("ix_agent_market_updated", "updated_block"),
    partial_index("ix_agent_market_unpaid", "market_id", where="unpaid > 0"),
    partial_index(
        "ix_agent_market_settled",
        "feed",
        "kind",
        "closes_at",
        "listed_block",
        "listed_log_index",
        where=f"status <> {OPEN}",
    ),
)

agent_outcome = table(
    "agent_outcome",
    sa.Column("market_id", Hash32, primary_key=True),
    sa.Column("outcome", sa.SmallInteger, primary_key=True),
    sa.Column("net", Uint256, nullable=False),
    sa.Column("shares", Uint256, nullable=False),
    sa.Column("excess", Uint256, nullable=False),  # sum over its stakes of max(0, shares - net stake)
    sa.Column("stakes", sa.Integer, nullable=False),
)

# Stakes, and late payments to refund. Status as in the contract: 1 in the book, 2 owed back, 3 paid, 4 refunded; a
# losing stake stays 1. A market's odds history is the `price_after` of its stakes in order.
agent_stake = table(
    "agent_stake",
    sa.Column("stake_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("market_id", Hash32, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),  # order in its market, from 0: the low half of the id
    sa.Column("wallet", Address, nullable=False),
    sa.Column("outcome", sa.SmallInteger),  # NULL for a late payment
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("fee", Uint256, nullable=False),
    sa.Column("shares", Uint256, nullable=False),
    sa.Column("price_before", Uint256),  # of its outcome
    sa.Column("price_after", Uint256),
    sa.Column("nonce", Hash32, nullable=False),  # of the authorization that paid
    sa.Column("bet_hash", Hash32, nullable=False),
    sa.Column("idem_hash", Hash32, nullable=False),
    sa.Column("builder", Address),  # NULL when none was named
    sa.Column("ref", Hash32),
    sa.Column("refund_reason", sa.SmallInteger),
    sa.Column("status", sa.SmallInteger, nullable=False),  # StakeStatus
    sa.Column("staked_block", BlockNumber, nullable=False),
    sa.Column("staked_log_index", sa.Integer, nullable=False),
    sa.Column("staked_at", ChainTime, nullable=False),
    sa.Column("staked_tx", Hash32, nullable=False),
    sa.Column("paid_amount", Uint256, nullable=False),
    sa.Column("paid_block", BlockNumber),
    sa.Column("paid_at", ChainTime),
    sa.Column("paid_tx", Hash32),
    sa.Column("failed_payouts", sa.Integer, nullable=False),
    sa.Column("failed_tx", Hash32),
    sa.CheckConstraint(f"status IN ({IN_BOOK}, {OWED_BACK}, {PAID}, {REFUNDED})", name="status_is_known"),
    sa.CheckConstraint(f"(status IN ({PAID}, {REFUNDED})) = (paid_tx IS NOT NULL)", name="paid_has_a_transaction"),
    sa.Index("ix_agent_stake_market_id_ordinal", "market_id", "ordinal", unique=True),
    sa.Index("ix_agent_stake_wallet", "wallet", "staked_block"),
    sa.Index("ix_agent_stake_nonce", "wallet", "nonce"),
    sa.Index("ix_agent_stake_bet_hash", "bet_hash"),
    sa.Index("ix_agent_stake_staked_at", "staked_at"),
)

# Sums of the rows above, maintained by indexer.store.sums and valid once chain_cursor says `summed`.

# Each wallet's stakes by outcome of open markets; under a market id of zeros, its stakes in all settled markets, late
# payments included.
agent_holding = table(
    "agent_holding",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("market_id", Hash32, primary_key=True),
    sa.Column("outcome", sa.SmallInteger, primary_key=True),  # 0 under the zeros
    sa.Column("stakes", sa.Integer, nullable=False),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("shares", Uint256, nullable=False),
    sa.Column("worth", Uint256, nullable=False),  # payouts and refunds of settled stakes, and late payments
)

# Markets by their feed.
agent_total = table(
    "agent_total",
    sa.Column("feed", Address, primary_key=True),
    sa.Column("markets", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger, nullable=False),  # resolved or void
    sa.Column("stakes", sa.BigInteger, nullable=False),
    sa.Column("staked", Uint256, nullable=False),
    sa.Column("paid_out", Uint256, nullable=False),
)

agent_fee_sweep = table(
    "agent_fee_sweep",
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("at", ChainTime, nullable=False),
    sa.Column("tx", Hash32, nullable=False),
)

# Who may relay, credit and list; `role` is keccak256 of its name.
agent_role = table(
    "agent_role",
    sa.Column("role", Hash32, primary_key=True),
    sa.Column("account", Address, primary_key=True),
    sa.Column("allowed", sa.Boolean, nullable=False),
)

# The Safe's list of feeds. A condemned feed is never allowed again.
agent_feed = table(
    "agent_feed",
    sa.Column("feed", Address, primary_key=True),
    sa.Column("allowed", sa.Boolean, nullable=False),
    sa.Column("condemned", sa.Boolean, nullable=False),
    sa.Column("published", sa.Boolean, nullable=False),  # it has a publisher
    sa.Column("memory", sa.BigInteger, nullable=False),  # seconds a reading looks back
    sa.Column("max_age", sa.BigInteger, nullable=False),
    sa.Column("lag", sa.BigInteger, nullable=False),
    sa.Column("pot_cap", Uint256, nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),  # of a pool feed's grid, else 0
    sa.Column("feed_cap", Uint256, nullable=False),  # limit on the pot caps of all its unsettled markets together
)

# `fee_bps` to `void_delay` are the Safe's bounds for new listings, NULL before any are set.
agent_venue = table(
    "agent_venue",
    sa.Column("chain_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("stakes_paused", sa.Boolean, nullable=False),
    sa.Column("fees_swept", Uint256, nullable=False),
    sa.Column("fee_bps", sa.Integer),
    sa.Column("min_weight", sa.BigInteger),
    sa.Column("max_weight", sa.BigInteger),
    sa.Column("dispute_window", sa.BigInteger),
    sa.Column("void_delay", sa.BigInteger),
)

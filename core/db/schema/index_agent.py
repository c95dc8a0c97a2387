"""Projections of the agent contracts: markets, outcome books, stakes with their odds, payouts, and the Safe's settings.

Amounts, weights and shares are token units (6 decimals); prices are wads (1e18 is one); feed values have 8 decimals;
times are Unix seconds. Only the indexer writes these tables. `*_block`, `*_at` and `*_tx` are the block, time and
transaction of an event.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256

OPEN, RESOLVED, VOID = (int(AgentMarketStatus[name]) for name in ("OPEN", "RESOLVED", "VOID"))
IN_BOOK, OWED_BACK, PAID, REFUNDED = (int(StakeStatus[name]) for name in ("IN_BOOK", "OWED_BACK", "PAID", "REFUNDED"))

agent_market = Table(
    "agent_market",
    metadata,
    Column("market_id", Hash32, primary_key=True),
    Column("index", Integer, nullable=False),  # in opening order, from 1: the high half of its stakes' ids
    # The lister's specification
    Column("kind", SmallInteger, nullable=False),  # MarketKind
    Column("feed", Address, nullable=False),
    Column("target", Int256, nullable=False),
    Column("bounds", ARRAY(Numeric(78, 0)), nullable=False),
    Column("early_resolvable", Boolean, nullable=False),
    Column("opens_at", ChainTime, nullable=False),
    Column("closes_at", ChainTime, nullable=False),  # stakes before here
    Column("start_at", ChainTime, nullable=False),  # direction only, else 0
    Column("ends_at", ChainTime, nullable=False),  # the moment that decides
    Column("outcomes", SmallInteger, nullable=False),
    Column("weights", ARRAY(Numeric(78, 0)), nullable=False),  # virtual weight of each outcome
    # The terms under the Safe's bounds
    Column("fee_bps", Integer, nullable=False),
    Column("pot_cap", Uint256, nullable=False),
    Column("published", Boolean, nullable=False),  # its feed has a publisher
    Column("max_age", BigInteger, nullable=False),
    Column("early_from", ChainTime, nullable=False),  # early-resolvable only, else 0
    Column("settles_after", ChainTime, nullable=False),
    Column("voids_after", ChainTime, nullable=False),
    # The lister's metadata. `document` is its JSON, NULL unless it is an object; `slug` is the id in it, NULL unless
    # the market's key is its hash.
    Column("lister", Address, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("document", JSONB),
    Column("slug", Text),
    # Totals
    Column("staked", Uint256, nullable=False),  # fee included
    Column("net_pool", Uint256, nullable=False),  # less fees: what winners split
    Column("stakes", Integer, nullable=False),  # in the book
    Column("late_payments", Integer, nullable=False),  # credited too late: owed back, never in the book
    Column("paid_out", Uint256, nullable=False),  # to winners
    Column("paid_shares", Uint256, nullable=False),
    Column("given_back", Uint256, nullable=False),  # refunds sent
    Column(
        "unpaid", Integer, nullable=False, server_default="0"
    ),  # stakes with a payout or refund that is not sent yet
    # Its end
    Column("status", SmallInteger, nullable=False),  # AgentMarketStatus
    Column("winner", SmallInteger),
    Column("void_reason", SmallInteger),
    # The deciding readings; NULL if not used
    Column("end_round", Uint256),
    Column("end_answer", Int256),
    Column("end_updated_at", ChainTime),
    Column("start_round", Uint256),
    Column("start_answer", Int256),
    Column("start_updated_at", ChainTime),
    Column("closed_block", BlockNumber),
    Column("closed_at", ChainTime),
    Column("closed_tx", Hash32),
    Column("listed_block", BlockNumber, nullable=False),
    Column("listed_log_index", Integer, nullable=False),
    Column("listed_at", ChainTime, nullable=False),
    Column("listed_tx", Hash32, nullable=False),
    Column("updated_block", BlockNumber, nullable=False),
    CheckConstraint(f"status IN ({OPEN}, {RESOLVED}, {VOID})", name="status_is_known"),
    CheckConstraint(f"(status = {RESOLVED}) = (winner IS NOT NULL)", name="resolved_has_a_winner"),
    CheckConstraint(f"(status = {VOID}) = (void_reason IS NOT NULL)", name="void_has_a_reason"),
    CheckConstraint(f"(status = {OPEN}) = (closed_tx IS NULL)", name="closed_once"),
    Index("ix_agent_market_index", "index", unique=True),
    Index("ix_agent_market_slug", "slug"),
    # For the API: open markets, the newest settled ones, changes since a block; and pages of settled markets by feed,
    # kind and close of betting.
    Index("ix_agent_market_open", "market_id", postgresql_where=text(f"status = {OPEN}")),
    Index("ix_agent_market_closed", "closed_at", "market_id", postgresql_where=text(f"status <> {OPEN}")),
    Index("ix_agent_market_updated", "updated_block"),
    Index("ix_agent_market_unpaid", "market_id", postgresql_where=text("unpaid > 0")),
    Index(
        "ix_agent_market_settled",
        "feed",
        "kind",
        "closes_at",
        "listed_block",
        "listed_log_index",
        postgresql_where=text(f"status <> {OPEN}"),
    ),
)

agent_outcome = Table(
    "agent_outcome",
    metadata,
    Column("market_id", Hash32, primary_key=True),
    Column("outcome", SmallInteger, primary_key=True),
    Column("net", Uint256, nullable=False),
    Column("shares", Uint256, nullable=False),
    Column("excess", Uint256, nullable=False),  # sum over its stakes of max(0, shares - net stake)
    Column("stakes", Integer, nullable=False),
)

# Stakes, and late payments to refund. Status as in the contract: 1 in the book, 2 owed back, 3 paid, 4 refunded; a
# losing stake stays 1. A market's odds history is the `price_after` of its stakes in order.
agent_stake = Table(
    "agent_stake",
    metadata,
    Column("stake_id", BigInteger, primary_key=True, autoincrement=False),
    Column("market_id", Hash32, nullable=False),
    Column("ordinal", Integer, nullable=False),  # order in its market, from 0: the low half of the id
    Column("wallet", Address, nullable=False),
    Column("outcome", SmallInteger),  # NULL for a late payment
    Column("amount", Uint256, nullable=False),
    Column("fee", Uint256, nullable=False),
    Column("shares", Uint256, nullable=False),
    Column("price_before", Uint256),  # of its outcome
    Column("price_after", Uint256),
    Column("nonce", Hash32, nullable=False),  # of the authorization that paid
    Column("bet_hash", Hash32, nullable=False),
    Column("idem_hash", Hash32, nullable=False),
    Column("builder", Address),  # NULL when none was named
    Column("ref", Hash32),
    Column("refund_reason", SmallInteger),
    Column("status", SmallInteger, nullable=False),  # StakeStatus
    Column("staked_block", BlockNumber, nullable=False),
    Column("staked_log_index", Integer, nullable=False),
    Column("staked_at", ChainTime, nullable=False),
    Column("staked_tx", Hash32, nullable=False),
    Column("paid_amount", Uint256, nullable=False),
    Column("paid_block", BlockNumber),
    Column("paid_at", ChainTime),
    Column("paid_tx", Hash32),
    Column("failed_payouts", Integer, nullable=False),
    Column("failed_tx", Hash32),
    CheckConstraint(f"status IN ({IN_BOOK}, {OWED_BACK}, {PAID}, {REFUNDED})", name="status_is_known"),
    CheckConstraint(f"(status IN ({PAID}, {REFUNDED})) = (paid_tx IS NOT NULL)", name="paid_has_a_transaction"),
    Index("ix_agent_stake_market_id_ordinal", "market_id", "ordinal", unique=True),
    Index("ix_agent_stake_wallet", "wallet", "staked_block"),
    Index("ix_agent_stake_nonce", "wallet", "nonce"),
    Index("ix_agent_stake_bet_hash", "bet_hash"),
    Index("ix_agent_stake_staked_at", "staked_at"),
)

# Sums of the rows above, maintained by indexer.store.sums and valid once chain_cursor says `summed`.

# Each wallet's stakes by outcome of open markets; under a market id of zeros, its stakes in all settled markets, late
# payments included.
agent_holding = Table(
    "agent_holding",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("market_id", Hash32, primary_key=True),
    Column("outcome", SmallInteger, primary_key=True),  # 0 under the zeros
    Column("stakes", Integer, nullable=False),
    Column("amount", Uint256, nullable=False),
    Column("shares", Uint256, nullable=False),
    Column("worth", Uint256, nullable=False),  # payouts and refunds of settled stakes, and late payments
)

# Markets by their feed.
agent_total = Table(
    "agent_total",
    metadata,
    Column("feed", Address, primary_key=True),
    Column("markets", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False),  # resolved or void
    Column("stakes", BigInteger, nullable=False),
    Column("staked", Uint256, nullable=False),
    Column("paid_out", Uint256, nullable=False),
)

agent_fee_sweep = Table(
    "agent_fee_sweep",
    metadata,
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("amount", Uint256, nullable=False),
    Column("at", ChainTime, nullable=False),
    Column("tx", Hash32, nullable=False),
)

# Who may relay, credit and list; `role` is keccak256 of its name.
agent_role = Table(
    "agent_role",
    metadata,
    Column("role", Hash32, primary_key=True),
    Column("account", Address, primary_key=True),
    Column("allowed", Boolean, nullable=False),
)

# The Safe's list of feeds. A condemned feed is never allowed again.
agent_feed = Table(
    "agent_feed",
    metadata,
    Column("feed", Address, primary_key=True),
    Column("allowed", Boolean, nullable=False),
    Column("condemned", Boolean, nullable=False),
    Column("published", Boolean, nullable=False),  # it has a publisher
    Column("memory", BigInteger, nullable=False),  # seconds a reading looks back
    Column("max_age", BigInteger, nullable=False),
    Column("lag", BigInteger, nullable=False),
    Column("pot_cap", Uint256, nullable=False),
    Column("step", BigInteger, nullable=False),  # of a pool feed's grid, else 0
    Column("feed_cap", Uint256, nullable=False),  # limit on the pot caps of all its unsettled markets together
)

# `fee_bps` to `void_delay` are the Safe's bounds for new listings, NULL before any are set.
agent_venue = Table(
    "agent_venue",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("stakes_paused", Boolean, nullable=False),
    Column("fees_swept", Uint256, nullable=False),
    Column("fee_bps", Integer),
    Column("min_weight", BigInteger),
    Column("max_weight", BigInteger),
    Column("dispute_window", BigInteger),
    Column("void_delay", BigInteger),
)

"""Projections of both sides, stock and agent: rounds of feeds, token authorizations, and pauses."""

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
)

from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256

# `feed` is the proxy that markets name and `round_id` is its `phase << 64 | n`, whichever contract emitted the log.
oracle_round = Table(
    "oracle_round",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("feed", Address, nullable=False),
    Column("round_id", Uint256, nullable=False),
    Column("answer", Int256, nullable=False),  # 8 decimals
    Column("updated_at", ChainTime, nullable=False),
    Column("at", ChainTime, nullable=False),  # time of the block
    Column("tx", Hash32, nullable=False),
    Index("ix_oracle_round_feed", "chain_id", "feed", "updated_at"),
)

# What a pool feed computed a round from; its event directly follows the round's. The arrays have one element per pool,
# in the feed's order. `quality` is IPoolFeed.Quality: 1 good, 2 thin, 3 out of range.
oracle_measure = Table(
    "oracle_measure",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("feed", Address, nullable=False),
    Column("round_id", Uint256, nullable=False),
    Column("quality", SmallInteger, nullable=False),
    Column("start_cumulatives", ARRAY(BigInteger), nullable=False),
    Column("end_cumulatives", ARRAY(BigInteger), nullable=False),
    Column("liquidity", ARRAY(Numeric(78, 0)), nullable=False),  # harmonic mean over the window
    Column("quiet", ARRAY(BigInteger), nullable=False),  # seconds
    Index("ix_oracle_measure_feed", "chain_id", "feed", "round_id", unique=True),
)

# The state of EIP-3009 authorizations; the token lets each be used or canceled once.
# - paid: its AuthorizationUsed event directly precedes a transfer from its signer to one of our contracts, which is its
#   payment; each transfer belongs to one authorization. Finds landed relays by nonce, and money sent without `settle`.
# - unpaired: used in a transaction with a transfer from its signer to us that belongs to another authorization. Uses in
#   other transactions pay us nothing and are not stored.
# - canceled: by its signer, for any recipient.
token_authorization = Table(
    "token_authorization",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("authorizer", Address, primary_key=True),
    Column("nonce", Hash32, primary_key=True),
    Column("token", Address, nullable=False),
    Column("state", Text, nullable=False),
    Column("recipient", Address),
    Column("value", Uint256),
    Column("block_number", BlockNumber, nullable=False),
    Column("log_index", Integer, nullable=False),  # of the authorization's event; the transfer is the next log
    Column("at", ChainTime, nullable=False),
    Column("tx", Hash32, nullable=False),
    CheckConstraint("state IN ('paid', 'unpaired', 'canceled')", name="state_is_known"),
    CheckConstraint("(state = 'paid') = (value IS NOT NULL)", name="paid_has_a_value"),
    CheckConstraint("(state = 'paid') = (recipient IS NOT NULL)", name="paid_has_a_recipient"),
    Index("ix_token_authorization_block_number", "chain_id", "block_number", "log_index"),
)

# The accounts that may pause stakes on a chain, through its pauser.
pauser_guardian = Table(
    "pauser_guardian",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("account", Address, primary_key=True),
    Column("allowed", Boolean, nullable=False),
)

# All pauses and resumptions, and who made them.
pauser_act = Table(
    "pauser_act",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("account", Address, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("at", ChainTime, nullable=False),
    Column("tx", Hash32, nullable=False),
)

"""Projections of both sides, stock and agent: rounds of feeds, token authorizations, and pauses."""

from __future__ import annotations

import sqlalchemy as sa

from core.db.schema import table
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256

# `feed` is the proxy that markets name and `round_id` is its `phase << 64 | n`, whichever contract emitted the log.
oracle_round = table(
    "oracle_round",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("feed", Address, nullable=False),
    sa.Column("round_id", Uint256, nullable=False),
    sa.Column("answer", Int256, nullable=False),  # 8 decimals
    sa.Column("updated_at", ChainTime, nullable=False),
    sa.Column("at", ChainTime, nullable=False),  # time of the block
    sa.Column("tx", Hash32, nullable=False),
    sa.Index("ix_oracle_round_feed", "chain_id", "feed", "updated_at"),
)

# What a pool feed computed a round from; its event directly follows the round's. The arrays have one element per pool,
# in the feed's order. `quality` is IPoolFeed.Quality: 1 good, 2 thin, 3 out of range.
oracle_measure = table(
    "oracle_measure",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("feed", Address, nullable=False),
    sa.Column("round_id", Uint256, nullable=False),
    sa.Column("quality", sa.SmallInteger, nullable=False),
    sa.Column("start_cumulatives", sa.ARRAY(sa.BigInteger), nullable=False),
    sa.Column("end_cumulatives", sa.ARRAY(sa.BigInteger), nullable=False),
    sa.Column("liquidity", sa.ARRAY(sa.Numeric(78, 0)), nullable=False),  # harmonic mean over the window
    sa.Column("quiet", sa.ARRAY(sa.BigInteger), nullable=False),  # seconds
    sa.Index("ix_oracle_measure_feed", "chain_id", "feed", "round_id", unique=True),
)

# The state of EIP-3009 authorizations; the token lets each be used or canceled once.
# - paid: its AuthorizationUsed event directly precedes a transfer from its signer to one of our contracts, which is its
#   payment; each transfer belongs to one authorization. Finds landed relays by nonce, and money sent without `settle`.
# - unpaired: used in a transaction with a transfer from its signer to us that belongs to another authorization. Uses in
#   other transactions pay us nothing and are not stored.
# - canceled: by its signer, for any recipient.
token_authorization = table(
    "token_authorization",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("authorizer", Address, primary_key=True),
    sa.Column("nonce", Hash32, primary_key=True),
    sa.Column("token", Address, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("recipient", Address),
    sa.Column("value", Uint256),
    sa.Column("block_number", BlockNumber, nullable=False),
    sa.Column("log_index", sa.Integer, nullable=False),  # of the authorization's event; the transfer is the next log
    sa.Column("at", ChainTime, nullable=False),
    sa.Column("tx", Hash32, nullable=False),
    sa.CheckConstraint("state IN ('paid', 'unpaired', 'canceled')", name="state_is_known"),
    sa.CheckConstraint("(state = 'paid') = (value IS NOT NULL)", name="paid_has_a_value"),
    sa.CheckConstraint("(state = 'paid') = (recipient IS NOT NULL)", name="paid_has_a_recipient"),
    sa.Index("ix_token_authorization_block_number", "chain_id", "block_number", "log_index"),
)

# The accounts that may pause stakes on a chain, through its pauser.
pauser_guardian = table(
    "pauser_guardian",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("account", Address, primary_key=True),
    sa.Column("allowed", sa.Boolean, nullable=False),
)

# All pauses and resumptions, and who made them.
pauser_act = table(
    "pauser_act",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("account", Address, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("at", ChainTime, nullable=False),
    sa.Column("tx", Hash32, nullable=False),
)

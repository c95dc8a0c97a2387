"""Projections both sides use: rounds of price feeds, and token authorizations that paid us. Rows here only ever come
and, in a reorganization, go; they never change."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table

from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Int256, Uint256

# `feed` is the proxy the markets name, `round_id` is `phase << 64 | n` as it counts, whoever emitted the log.
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

# An EIP-3009 authorization that moved money to one of our contracts: finds a landed relay by its nonce, and money that
# somebody sent past `settle`.
token_authorization = Table(
    "token_authorization",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("token", Address, nullable=False),
    Column("authorizer", Address, nullable=False),
    Column("nonce", Hash32, nullable=False),
    Column("recipient", Address, nullable=False),
    Column("value", Uint256, nullable=False),
    Column("at", ChainTime, nullable=False),
    Column("tx", Hash32, nullable=False),
    Index("ix_token_authorization_nonce", "nonce", "authorizer"),
)

"""Bets the relay accepted, by the authorization that pays for them, so that resubmitting a body is harmless."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Table, func

from core.db.schema import metadata
from core.db.types import Address, Hash32, Uint256, UtcDateTime

# The contract books an authorization at most once in any case; this table only serves to find its transaction again.
# `attempt` counts transactions; each is requested after the previous one could no longer land.
relay_bet = Table(
    "relay_bet",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("signer", Address, primary_key=True),
    Column("nonce", Hash32, primary_key=True),
    Column("market_id", BigInteger, nullable=False),
    Column("amount", Uint256, nullable=False),
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("intent_id", BigInteger, nullable=False),  # of the latest attempt
    Column("asked_at", UtcDateTime, nullable=False, server_default=func.now()),  # when the latest attempt was requested
    Column("confirmation_sent_at", UtcDateTime),  # when its confirmation first reached its sender
    CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
)

"""Off-chain records of accepted payments. The records of the agent API are keyed by wallet and idempotency key, those
of the relay by authorization.

The records are not needed to know what was settled: on chain, stakes have their wallet and the hash of their
idempotency key, and the contract books an authorization at most once. Amounts and shares are token units (6 decimals).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, LargeBinary, SmallInteger, Table, Text, func

from core.db.schema import metadata
from core.db.types import Address, Hash32, Uint256, UtcDateTime

# Price locks. Each serves one trade, named by `wallet` and `idem_hash` once it exists.
agent_quote = Table(
    "agent_quote",
    metadata,
    Column("quote_id", Text, primary_key=True),
    Column("market_id", Hash32, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("amount", Uint256, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("wallet", Address),
    Column("idem_hash", Hash32),
    CheckConstraint("(wallet IS NULL) = (idem_hash IS NULL)", name="used_by_a_trade"),
    Index("ix_agent_quote_expires_at", "expires_at"),
)

# Accepted payments by wallet and hash of the idempotency key, with the outbox intent of the latest attempt. A new
# attempt is made only if the previous one ended without moving money.
agent_trade = Table(
    "agent_trade",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("idem_hash", Hash32, primary_key=True),
    Column("market_id", Hash32, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("amount", Uint256, nullable=False),
    Column("builder", Address),
    Column("bet_hash", Hash32, nullable=False),
    Column("nonce", Hash32, nullable=False),  # of the payer's authorization
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("intent_id", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
    Index("ix_agent_trade_bet_hash", "bet_hash"),
    Index("ix_agent_trade_intent_id", "intent_id"),
)

# The bet that each authorization was first presented for. A failed transaction makes an authorization public, and a
# random nonce does not name a bet, so the authorization can only pay for that first bet. `arguments` is the bet and the
# authorization, ABI-encoded for `settle` and `credit`, to book the payment if it arrives without its bet. Only what the
# payer signed is stored here. Never deleted.
agent_authorization = Table(
    "agent_authorization",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("nonce", Hash32, primary_key=True),
    Column("bet_hash", Hash32, nullable=False),
    Column("idem_hash", Hash32, nullable=False),
    Column("amount", Uint256, nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("brought_at", UtcDateTime, nullable=False, server_default=func.now()),
    Index("ix_agent_authorization_idem_hash", "wallet", "idem_hash"),
)


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

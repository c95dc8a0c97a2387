"""The agent API's off-chain records: price locks, and which payment it accepted for which idempotency key.

Neither is needed to know what settled: a stake carries its wallet and the hash of its key on chain. Amounts and shares
are token units (6 decimals).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, LargeBinary, SmallInteger, Table, Text, func

from core.db.schema import metadata
from core.db.types import Address, Hash32, Uint256, UtcDateTime

# A price lock. It serves one trade: `wallet` and `idem_hash` name it once there is one.
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

# A payment taken in, by the wallet and the hash of its idempotency key: the outbox intent of the latest attempt. A new
# attempt is made only when the one before ended without moving money.
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

# What an authorization was first brought to pay for. A failed transaction shows it to everybody, and a random nonce
# says nothing of the bet it is to pay for: so it serves that one and no other, as long as it lives. `arguments` is that
# bet and the authorization, ABI-encoded as `settle` and `credit` both take them: what books the payment should it
# arrive without its bet. Only what its payer signed is written here. Never removed.
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

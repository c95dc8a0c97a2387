"""Off-chain records of accepted payments. The agent API's records are keyed by wallet and idempotency key, the relay's
by authorization.

The chain alone shows what was settled: each stake has its wallet and the hash of its idempotency key, and the contract
books an authorization at most once. Amounts and shares are token units (6 decimals).
"""

from __future__ import annotations

import sqlalchemy as sa

from core.db.schema import table
from core.db.types import Address, Hash32, Uint256, UtcDateTime

# Price locks. Each serves one trade, named by `wallet` and `idem_hash` once it exists.
agent_quote = table(
    "agent_quote",
    sa.Column("quote_id", sa.Text, primary_key=True),
    sa.Column("market_id", Hash32, nullable=False),
    sa.Column("outcome", sa.SmallInteger, nullable=False),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("wallet", Address),
    sa.Column("idem_hash", Hash32),
    sa.CheckConstraint("(wallet IS NULL) = (idem_hash IS NULL)", name="used_by_a_trade"),
    sa.Index("ix_agent_quote_expires_at", "expires_at"),
)

# Accepted payments by wallet and hash of the idempotency key, with the outbox intent of the latest attempt. A new
# attempt is made only if the previous one ended without moving money.
agent_trade = table(
    "agent_trade",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("idem_hash", Hash32, primary_key=True),
    sa.Column("market_id", Hash32, nullable=False),
    sa.Column("outcome", sa.SmallInteger, nullable=False),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("builder", Address),
    sa.Column("bet_hash", Hash32, nullable=False),
    sa.Column("nonce", Hash32, nullable=False),  # of the payer's authorization
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
    sa.Column("intent_id", sa.BigInteger, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
    sa.Index("ix_agent_trade_bet_hash", "bet_hash"),
    sa.Index("ix_agent_trade_intent_id", "intent_id"),
)

# The bet that each authorization was first presented for. A failed transaction makes an authorization public, and a
# random nonce does not name a bet, so the authorization can only pay for that first bet. `arguments` is the bet and the
# authorization, ABI-encoded for `settle` and `credit`, to book the payment if it arrives without its bet. Only what the
# payer signed is stored here. Never deleted.
agent_authorization = table(
    "agent_authorization",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("nonce", Hash32, primary_key=True),
    sa.Column("bet_hash", Hash32, nullable=False),
    sa.Column("idem_hash", Hash32, nullable=False),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("arguments", sa.LargeBinary, nullable=False),
    sa.Column("brought_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Index("ix_agent_authorization_idem_hash", "wallet", "idem_hash"),
)


# The contract books an authorization at most once in any case; this table only serves to find its transaction again.
# `attempt` counts transactions; each is requested after the previous one could no longer land.
relay_bet = table(
    "relay_bet",
    sa.Column("chain_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("signer", Address, primary_key=True),
    sa.Column("nonce", Hash32, primary_key=True),
    sa.Column("market_id", sa.BigInteger, nullable=False),
    sa.Column("amount", Uint256, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
    sa.Column("intent_id", sa.BigInteger, nullable=False),  # of the latest attempt
    sa.Column("asked_at", UtcDateTime, nullable=False, server_default=sa.func.now()),  # of the latest attempt
    sa.Column("confirmation_sent_at", UtcDateTime),  # when its confirmation first reached its sender
    sa.CheckConstraint("attempt >= 1", name="attempts_count_from_one"),
)

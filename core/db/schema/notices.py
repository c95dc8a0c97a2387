"""The agent event log, and the endpoints it is pushed to.

`agent_event` is a record, not a projection: rows are only ever added, and a trigger refuses anything else. `seq` counts
each wallet's events from 0 without a gap, in commit order: a transaction that adds events holds the wallet's row of
`agent_event_wallet` until its transaction ends.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from core.db.schema import metadata
from core.db.types import Address, BlockNumber, Hash32, UtcDateTime

# One row per wallet that ever had an event. `chain_micros`: createdAt of its newest event from the chain.
agent_event_wallet = Table(
    "agent_event_wallet",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("next_seq", BigInteger, nullable=False, server_default="0"),
    Column("chain_micros", BigInteger, nullable=False, server_default="0"),
)

# `source` names what happened (core.agent.notices.sources), so nothing is added twice; `occurrence` counts how often it
# happened again after a reorganization had undone it. `corrects` is the source of the event that this one takes back.
agent_event = Table(
    "agent_event",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("source", LargeBinary, nullable=False),
    Column("occurrence", SmallInteger, nullable=False),
    Column("corrects", LargeBinary),
    Column("type", Text, nullable=False),
    Column("market_id", Text),  # as the API names it
    Column("trade_id", Hash32),
    Column("at_micros", BigInteger, nullable=False),  # createdAt, microseconds since 1970
    Column("block_number", BlockNumber),  # of an event from a block; NULL for all others
    Column("payload", Text, nullable=False),  # JSON, kept as the bytes that go out
    Column("recorded_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("seq >= 0", name="seq_counts_from_zero"),
    Index("uq_agent_event_source", "source", "occurrence", unique=True),
    Index(
        "uq_agent_event_corrects", "corrects", "occurrence", unique=True, postgresql_where=text("corrects IS NOT NULL")
    ),
    Index("ix_agent_event_trade_id", "trade_id", "seq", postgresql_where=text("trade_id IS NOT NULL")),
    Index("ix_agent_event_block_number", "block_number", postgresql_where=text("block_number IS NOT NULL")),
    Index("ix_agent_event_at", "wallet", "at_micros"),
)

# Where events are pushed: a webhook registered for a wallet, or (with `trade_id`) the callback of one trade. `next_seq`
# is the event it gets next; nothing after it is sent before that one is answered or given up.
agent_webhook = Table(
    "agent_webhook",
    metadata,
    Column("id", Text, primary_key=True),
    Column("wallet", Address, nullable=False),
    Column("trade_id", Hash32),
    Column("url", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("secret", Text),  # of the HMAC; a callback has none, the attestation key signs for it
    Column("challenge", Text),
    Column("next_seq", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),  # failed ones of the event `next_seq`
    Column("attempt_at", UtcDateTime, nullable=False, server_default=func.now()),  # infinity: nothing is to be sent
    Column("slow_until", UtcDateTime),  # it answered slowly, or not at all, and waits with others that do
    Column("failing_since", UtcDateTime),
    Column("last_error", Text),
    Column("verify_until", UtcDateTime),
    Column("lease", UUID(as_uuid=True)),  # of the process that is sending now
    Column("lease_until", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("status IN ('pending_verification', 'active', 'disabled')", name="status_is_known"),
    CheckConstraint("(trade_id IS NULL) = (secret IS NOT NULL)", name="a_callback_has_no_secret"),
    CheckConstraint("(lease IS NULL) = (lease_until IS NULL)", name="a_lease_ends"),
    Index("uq_agent_webhook_url", "wallet", "url", unique=True, postgresql_where=text("trade_id IS NULL")),
    Index("uq_agent_webhook_callback", "trade_id", "url", unique=True, postgresql_where=text("trade_id IS NOT NULL")),
    Index("ix_agent_webhook_wallet", "wallet"),
    Index("ix_agent_webhook_attempt_at", "attempt_at", postgresql_where=text("status <> 'disabled'")),
)

# Registration messages that were used: each of a wallet's is accepted once. They expire after ten minutes anyway.
agent_webhook_message = Table(
    "agent_webhook_message",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("digest", Hash32, primary_key=True),
    Column("used_at", UtcDateTime, nullable=False, server_default=func.now()),
)

# Events given up after the last attempt. They stay in the log, and `/events/replay` has them.
agent_webhook_dead = Table(
    "agent_webhook_dead",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("webhook_id", Text, nullable=False),
    Column("wallet", Address, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    Index("ix_agent_webhook_dead_webhook_id", "webhook_id"),
)

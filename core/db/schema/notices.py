"""The event log of the agent API, and the endpoints to which events are pushed.

`agent_event` is a record, not a projection: rows are only added, and a trigger refuses any other change. `seq` numbers
each wallet's events from 0. The numbers have no gaps and are in commit order, because a transaction that adds events
keeps the wallet's row in `agent_event_wallet` locked until it ends.
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

# One row per wallet with events. `chain_micros`: createdAt of its newest chain event.
agent_event_wallet = Table(
    "agent_event_wallet",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("next_seq", BigInteger, nullable=False, server_default="0"),
    Column("chain_micros", BigInteger, nullable=False, server_default="0"),
)

# `source` identifies what happened (core.agent.notices.kinds), so that nothing is added twice; `occurrence` counts how
# often it happened again after a reorganization undid it. `corrects` is the source of the event that this one corrects.
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
    Column("block_number", BlockNumber),  # NULL unless the event comes from a block
    Column("payload", Text, nullable=False),  # JSON, exactly as it is sent
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

# Endpoints that events are pushed to: a webhook of a wallet, or (with `trade_id`) the callback of one trade. `next_seq`
# is the event to send next; later ones wait until it is acknowledged or given up.
agent_webhook = Table(
    "agent_webhook",
    metadata,
    Column("id", Text, primary_key=True),
    Column("wallet", Address, nullable=False),
    Column("trade_id", Hash32),
    Column("url", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("secret", Text),  # of the HMAC; callbacks are signed by the attestation key instead
    Column("challenge", Text),
    Column("next_seq", BigInteger, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),  # failed ones of the event `next_seq`
    Column("attempt_at", UtcDateTime, nullable=False, server_default=func.now()),  # infinity: nothing to send
    Column("slow_until", UtcDateTime),  # queued with other slow endpoints until then
    Column("failing_since", UtcDateTime),
    Column("last_error", Text),
    Column("verify_until", UtcDateTime),
    Column("lease", UUID(as_uuid=True)),  # held by the process that is sending now
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

# Used registration messages: each is accepted once. They expire after ten minutes anyway.
agent_webhook_message = Table(
    "agent_webhook_message",
    metadata,
    Column("wallet", Address, primary_key=True),
    Column("digest", Hash32, primary_key=True),
    Column("used_at", UtcDateTime, nullable=False, server_default=func.now()),
)

# Events given up after the last attempt. They stay in the log and in `/events/replay`.
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

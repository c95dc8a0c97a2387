"""The event log of the agent API, and the endpoints to which events are pushed.

`agent_event` is a record, not a projection: rows are only added, and a trigger refuses any other change. `seq` numbers
each wallet's events from 0. A transaction that adds events locks the wallet's row in `agent_event_wallet` until it
ends, so the numbers have no gaps and are in commit order.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

from core.db.schema import partial_index, table
from core.db.types import Address, BlockNumber, Hash32, UtcDateTime

# One row per wallet with events. `chain_micros`: createdAt of its newest chain event.
agent_event_wallet = table(
    "agent_event_wallet",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("next_seq", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("chain_micros", sa.BigInteger, nullable=False, server_default="0"),
)

# `source` identifies what happened (core.agent.notices.log), so that nothing is added twice; `occurrence` counts how
# often it happened again after a reorganization undid it. `corrects` is the source of the event that this one corrects.
agent_event = table(
    "agent_event",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("source", sa.LargeBinary, nullable=False),
    sa.Column("occurrence", sa.SmallInteger, nullable=False),
    sa.Column("corrects", sa.LargeBinary),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("market_id", sa.Text),  # as the API names it
    sa.Column("trade_id", Hash32),
    sa.Column("at_micros", sa.BigInteger, nullable=False),  # createdAt, microseconds since 1970
    sa.Column("block_number", BlockNumber),  # NULL unless the event comes from a block
    sa.Column("payload", sa.Text, nullable=False),  # JSON, exactly as it is sent
    sa.Column("recorded_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("seq >= 0", name="seq_counts_from_zero"),
    sa.Index("uq_agent_event_source", "source", "occurrence", unique=True),
    partial_index("uq_agent_event_corrects", "corrects", "occurrence", unique=True, where="corrects IS NOT NULL"),
    partial_index("ix_agent_event_trade_id", "trade_id", "seq", where="trade_id IS NOT NULL"),
    partial_index("ix_agent_event_block_number", "block_number", where="block_number IS NOT NULL"),
    sa.Index("ix_agent_event_at", "wallet", "at_micros"),
)

# Endpoints that events are pushed to: a webhook of a wallet, or (with `trade_id`) the callback of one trade. `next_seq`
# is the event to send next; later ones wait until it is acknowledged or given up.
agent_webhook = table(
    "agent_webhook",
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("wallet", Address, nullable=False),
    sa.Column("trade_id", Hash32),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("secret", sa.Text),  # of the HMAC; callbacks are signed by the attestation key instead
    sa.Column("challenge", sa.Text),
    sa.Column("next_seq", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),  # failed ones of the event `next_seq`
    sa.Column("attempt_at", UtcDateTime, nullable=False, server_default=sa.func.now()),  # infinity: nothing to send
    sa.Column("slow_until", UtcDateTime),  # queued with other slow endpoints until then
    sa.Column("failing_since", UtcDateTime),
    sa.Column("last_error", sa.Text),
    sa.Column("verify_until", UtcDateTime),
    sa.Column("lease", UUID(as_uuid=True)),  # held by the process that is sending now
    sa.Column("lease_until", UtcDateTime),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("status IN ('pending_verification', 'active', 'disabled')", name="status_is_known"),
    sa.CheckConstraint("(trade_id IS NULL) = (secret IS NOT NULL)", name="a_callback_has_no_secret"),
    sa.CheckConstraint("(lease IS NULL) = (lease_until IS NULL)", name="a_lease_ends"),
    partial_index("uq_agent_webhook_url", "wallet", "url", unique=True, where="trade_id IS NULL"),
    partial_index("uq_agent_webhook_callback", "trade_id", "url", unique=True, where="trade_id IS NOT NULL"),
    sa.Index("ix_agent_webhook_wallet", "wallet"),
    partial_index("ix_agent_webhook_attempt_at", "attempt_at", where="status <> 'disabled'"),
)

# Used registration messages: each is accepted once. They expire after ten minutes anyway.
agent_webhook_message = table(
    "agent_webhook_message",
    sa.Column("wallet", Address, primary_key=True),
    sa.Column("digest", Hash32, primary_key=True),
    sa.Column("used_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
)

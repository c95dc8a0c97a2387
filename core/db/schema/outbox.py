"""The transaction outbox: lanes (one key on one chain each), intents, their signed transactions and their history.

Written by code that wants a transaction (`core.outbox`) and by the relayer; the only meeting point of the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Uint256, UtcDateTime

# One row per key and chain, made by the relayer that has the key. `holder` may sign until `lease_until`; taking a
# lane over raises `epoch`, and every write of a holder names its epoch: one that slept through a takeover changes
# nothing.
outbox_lane = Table(
    "outbox_lane",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("address", Address, nullable=False),
    Column("groups", ARRAY(Text), nullable=False),
    Column("next_nonce", BigInteger),  # null until a holder has compared with the chain
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("holder", UUID(as_uuid=True)),
    Column("holder_name", Text),  # host:pid, for people
    Column("lease_until", UtcDateTime),
    # `ready`, or why it signs nothing new: see core.outbox.lanes.LaneStatus.
    Column("status", Text, nullable=False, server_default="starting"),
    Column("status_detail", Text, nullable=False, server_default=""),
    Column("balance_wei", Uint256),
    UniqueConstraint("chain_id", "address"),
    CheckConstraint("next_nonce >= 0", name="nonce_is_a_count"),
    CheckConstraint("(holder IS NULL) = (lease_until IS NULL)", name="holder_has_a_lease"),
)

outbox_intent = Table(
    "outbox_intent",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("fingerprint", Hash32, nullable=False),  # of what was asked for: the same key may never ask for two things
    Column("chain_id", BigInteger, nullable=False),
    Column("lane_group", Text, nullable=False),
    Column("kind", Text, nullable=False),  # a word for metrics and people, such as `enter` or `resolve`
    Column("to_address", Address, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("value_wei", Uint256, nullable=False),
    Column("gas_limit", BigInteger),  # null: estimated before signing
    Column("simulate", Boolean, nullable=False),
    Column("replay_safe", Boolean, nullable=False),  # the contract refuses a second landing
    Column("priority", SmallInteger, nullable=False),
    Column("not_after", ChainTime),
    Column("depends_on", BigInteger, ForeignKey("outbox_intent.id")),
    # The stranger whose signature it carries; and, set as it is signed, the hash of that wallet's code, if it had any.
    Column("payer", Address),
    Column("payer_code", Hash32),
    Column("state", Text, nullable=False, server_default="queued"),
    Column("outcome", Text),
    Column("reason_code", Text),
    Column("reason", Text),
    Column("lane_id", Integer, ForeignKey("outbox_lane.id")),
    Column("nonce", BigInteger),
    Column("tx_hash", Hash32),  # the newest signed transaction, or the one that was mined
    Column("block_number", BlockNumber),  # that mined it; or, without a hash, in which it was refused
    Column("block_hash", Hash32),
    Column("gas_used", BigInteger),
    Column("fee_wei", Uint256),
    Column("created_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("state_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("mined_at", UtcDateTime),
    # Long ended: its call data, signed bytes and history are gone, its key and its end stay (core.outbox.retention).
    Column("is_thinned", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint(
        "state IN ('queued', 'signed', 'sent', 'mined', 'final', 'failed', 'replaced')", name="state_is_known"
    ),
    CheckConstraint("outcome IN ('succeeded', 'reverted', 'cancelled')", name="outcome_is_known"),
    CheckConstraint("state <> 'queued' OR nonce IS NULL", name="queued_has_no_nonce"),
    CheckConstraint(
        "state NOT IN ('signed', 'sent', 'mined', 'final', 'replaced') OR "
        "(lane_id IS NOT NULL AND nonce IS NOT NULL AND tx_hash IS NOT NULL)",
        name="beyond_queued_has_a_transaction",
    ),
    CheckConstraint(
        "state NOT IN ('mined', 'final', 'replaced') OR "
        "(outcome IS NOT NULL AND block_number IS NOT NULL AND block_hash IS NOT NULL)",
        name="mined_has_a_block",
    ),
    CheckConstraint("state <> 'failed' OR reason IS NOT NULL", name="failed_says_why"),
    CheckConstraint("depends_on < id", name="depends_on_an_earlier_one"),
)
# A nonce of a lane belongs to one intent for ever; giving it up (a foreign transaction used it) sets it to null.
Index("uq_outbox_intent_lane_nonce", outbox_intent.c.lane_id, outbox_intent.c.nonce, unique=True)
Index(
    "ix_outbox_intent_queue",
    outbox_intent.c.chain_id,
    outbox_intent.c.lane_group,
    outbox_intent.c.priority.desc(),
    outbox_intent.c.id,
    postgresql_where=text("state = 'queued'"),
)
Index(
    "ix_outbox_intent_live",
    outbox_intent.c.lane_id,
    postgresql_where=text("state IN ('signed', 'sent', 'mined')"),
)
Index(
    "ix_outbox_intent_spending",
    outbox_intent.c.lane_id,
    outbox_intent.c.mined_at,
    postgresql_where=text("mined_at IS NOT NULL"),
)
Index(
    "ix_outbox_intent_payer",
    outbox_intent.c.payer,
    outbox_intent.c.mined_at,
    postgresql_where=text("payer IS NOT NULL AND mined_at IS NOT NULL"),
)
Index(
    "ix_outbox_intent_payer_code",
    outbox_intent.c.payer_code,
    outbox_intent.c.mined_at,
    postgresql_where=text("payer_code IS NOT NULL AND mined_at IS NOT NULL"),
)
Index(
    "ix_outbox_intent_ended",
    outbox_intent.c.chain_id,
    outbox_intent.c.state_at,
    postgresql_where=text("state IN ('final', 'failed', 'replaced') AND NOT is_thinned"),
)
Index(
    "ix_outbox_intent_depends_on",
    outbox_intent.c.depends_on,
    postgresql_where=text("depends_on IS NOT NULL"),
)

# Which lane is having an intent signed by a key service, so that no other asks, and pays, for the same. It guards
# nothing: an intent gets its nonce under its row lock, claimed or not. So it is not tied to the intents either.
outbox_claim = Table(
    "outbox_claim",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("lane_id", Integer, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

# Signed transactions whose notices to their wallets could not be written as they were signed, because another process
# was adding events of theirs; taken away as they are written. What fails is tried again ever later, and then stays.
outbox_pending_notice = Table(
    "outbox_pending_notice",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("tx_hash", Hash32, nullable=False),
    Column("tries", SmallInteger, nullable=False, server_default="0"),
    Column("retry_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("problem", Text),
)

# Every signed transaction, written before it is sent; rows are never changed, and only retention takes them away.
# Several with one nonce are replacements.
outbox_transaction = Table(
    "outbox_transaction",
    metadata,
    Column("hash", Hash32, primary_key=True),
    Column("intent_id", BigInteger, ForeignKey("outbox_intent.id"), nullable=False),
    Column("lane_id", Integer, ForeignKey("outbox_lane.id"), nullable=False),
    Column("nonce", BigInteger, nullable=False),
    Column("is_cancel", Boolean, nullable=False),  # a no-op that takes the nonce instead of the call
    Column("raw", LargeBinary, nullable=False),
    Column("gas_limit", BigInteger, nullable=False),
    Column("max_fee_wei", Uint256, nullable=False),
    Column("max_priority_fee_wei", Uint256, nullable=False),
    Column("signed_at", UtcDateTime, nullable=False, server_default=func.now()),
    Index("ix_outbox_transaction_intent_id", "intent_id"),
)

# Every change of state, written by a trigger on outbox_intent in the same transaction; another refuses any change here
# but the removals of retention.
outbox_history = Table(
    "outbox_history",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("intent_id", BigInteger, ForeignKey("outbox_intent.id"), nullable=False),
    Column("from_state", Text),  # null: it was just asked for
    Column("to_state", Text, nullable=False),
    Column("tx_hash", Hash32),
    Column("reason", Text),
    Column("at", UtcDateTime, nullable=False, server_default=func.clock_timestamp()),
    Index("ix_outbox_history_intent_id", "intent_id"),
)

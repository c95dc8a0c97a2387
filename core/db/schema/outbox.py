"""The transaction outbox: lanes (one key on one chain each), intents, signed transactions and history.

Code that wants a transaction sent (`core.outbox`) and the relayer communicate only through these tables.
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

# One row per key and chain, created by the relayer that has the key. `holder` may sign until `lease_until`. A takeover
# raises `epoch`, and every write of a holder checks its epoch, so a holder that slept through a takeover changes
# nothing.
outbox_lane = Table(
    "outbox_lane",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("address", Address, nullable=False),
    Column("groups", ARRAY(Text), nullable=False),
    Column("next_nonce", BigInteger),  # null until a holder has read it from the chain
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("holder", UUID(as_uuid=True)),
    Column("holder_name", Text),  # host:pid, for people
    Column("lease_until", UtcDateTime),
    # See core.outbox.LaneStatus.
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
    Column(
        "fingerprint", Hash32, nullable=False
    ),  # of the transaction, so that a key cannot stand for two different ones
    Column("chain_id", BigInteger, nullable=False),
    Column("lane_group", Text, nullable=False),
    Column("kind", Text, nullable=False),  # for metrics and people, such as `enter` or `resolve`
    Column("to_address", Address, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("value_wei", Uint256, nullable=False),
    Column("replay_safe", Boolean, nullable=False),  # the contract refuses a second landing
    Column("priority", SmallInteger, nullable=False),
    Column("not_after", ChainTime),
    Column("depends_on", BigInteger, ForeignKey("outbox_intent.id")),
    # The wallet whose signature the call carries; and, set at signing, the hash of that wallet's code, if any.
    Column("payer", Address),
    Column("payer_code", Hash32),
    Column("state", Text, nullable=False, server_default="queued"),
    Column("outcome", Text),
    Column("reason_code", Text),
    Column("reason", Text),
    Column("lane_id", Integer, ForeignKey("outbox_lane.id")),
    Column("nonce", BigInteger),
    Column("tx_hash", Hash32),  # the newest signed transaction, or the one that was mined
    Column(
        "block_number", BlockNumber
    ),  # the block that mined it; or, without a hash, the block at which it was refused
    Column("block_hash", Hash32),
    Column("gas_used", BigInteger),
    Column("fee_wei", Uint256),
    Column("created_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("state_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("mined_at", UtcDateTime),
    # Call data, signed bytes and history are deleted; key and outcome stay (core.outbox.thin).
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
# A lane's nonce belongs to one intent forever; if a foreign transaction used it, the intent's nonce becomes null.
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

# The lane that is having an intent signed by a key service, so that no other lane requests, and pays for, the same
# signature. It guards nothing: an intent gets its nonce under its row lock anyway, so there is no foreign key.
outbox_claim = Table(
    "outbox_claim",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("lane_id", Integer, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)

# Signed transactions whose wallet events could not be appended at signing, because another process held the wallet's
# events. Rows are deleted once the events are written; failures are retried with growing pauses, then stay.
outbox_pending_notice = Table(
    "outbox_pending_notice",
    metadata,
    Column("intent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("tx_hash", Hash32, nullable=False),
    Column("tries", SmallInteger, nullable=False, server_default="0"),
    Column("retry_at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("problem", Text),
)

# All signed transactions, stored before they are sent. Rows are never changed, and only retention deletes them. Several
# with one nonce are replacements.
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

# All changes of state, written by a trigger on outbox_intent; another trigger refuses changes here except deletion by
# retention.
outbox_history = Table(
    "outbox_history",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("intent_id", BigInteger, ForeignKey("outbox_intent.id"), nullable=False),
    Column("from_state", Text),  # null for a new intent
    Column("to_state", Text, nullable=False),
    Column("tx_hash", Hash32),
    Column("reason", Text),
    Column("at", UtcDateTime, nullable=False, server_default=func.clock_timestamp()),
    Index("ix_outbox_history_intent_id", "intent_id"),
)

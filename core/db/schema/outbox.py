"""The transaction outbox: lanes (one for each key and chain), intents, signed transactions and history.

The callers of `core.outbox` and the relayer communicate only through these tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from core.db.schema import partial_index, table
from core.db.types import Address, BlockNumber, ChainTime, Hash32, Uint256, UtcDateTime

# One row per key and chain, created by the relayer that has the key. `holder` may sign until `lease_until`. A takeover
# raises `epoch`, and every write of a holder checks its epoch, so a holder that slept through a takeover changes
# nothing.
outbox_lane = table(
    "outbox_lane",
    sa.Column("id", sa.Integer, sa.Identity(always=True), primary_key=True),
    sa.Column("chain_id", sa.BigInteger, nullable=False),
    sa.Column("address", Address, nullable=False),
    sa.Column("groups", ARRAY(sa.Text), nullable=False),
    sa.Column("next_nonce", sa.BigInteger),  # null until a holder has read it from the chain
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("holder", UUID(as_uuid=True)),
    sa.Column("holder_name", sa.Text),  # host:pid, for people
    sa.Column("lease_until", UtcDateTime),
    # See core.outbox.LaneStatus.
    sa.Column("status", sa.Text, nullable=False, server_default="starting"),
    sa.Column("status_detail", sa.Text, nullable=False, server_default=""),
    sa.Column("balance_wei", Uint256),
    sa.UniqueConstraint("chain_id", "address"),
    sa.CheckConstraint("next_nonce >= 0", name="nonce_is_a_count"),
    sa.CheckConstraint("(holder IS NULL) = (lease_until IS NULL)", name="holder_has_a_lease"),
)

outbox_intent = table(
    "outbox_intent",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("fingerprint", Hash32, nullable=False),  # so that a key cannot stand for two different transactions
    sa.Column("chain_id", sa.BigInteger, nullable=False),
    sa.Column("lane_group", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # for metrics and people, such as `enter` or `resolve`
    sa.Column("to_address", Address, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("value_wei", Uint256, nullable=False),
    sa.Column("replay_safe", sa.Boolean, nullable=False),  # the contract refuses a second landing
    sa.Column("priority", sa.SmallInteger, nullable=False),
    sa.Column("not_after", ChainTime),
    sa.Column("depends_on", sa.BigInteger, sa.ForeignKey("outbox_intent.id")),
    # The wallet whose signature the call carries; and, set at signing, the hash of that wallet's code, if any.
    sa.Column("payer", Address),
    sa.Column("payer_code", Hash32),
    sa.Column("state", sa.Text, nullable=False, server_default="queued"),
    sa.Column("outcome", sa.Text),
    sa.Column("reason_code", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("lane_id", sa.Integer, sa.ForeignKey("outbox_lane.id")),
    sa.Column("nonce", sa.BigInteger),
    sa.Column("tx_hash", Hash32),  # the newest signed transaction, or the one that was mined
    sa.Column("block_number", BlockNumber),  # where it was mined or, without a hash, refused
    sa.Column("block_hash", Hash32),
    sa.Column("gas_used", sa.BigInteger),
    sa.Column("fee_wei", Uint256),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("state_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("mined_at", UtcDateTime),
    # Call data, signed bytes and history are deleted; key and outcome stay (core.outbox.thin_long_ended).
    sa.Column("is_thinned", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.CheckConstraint(
        "state IN ('queued', 'signed', 'sent', 'mined', 'final', 'failed', 'replaced')", name="state_is_known"
    ),
    sa.CheckConstraint("outcome IN ('succeeded', 'reverted', 'cancelled')", name="outcome_is_known"),
    sa.CheckConstraint("state <> 'queued' OR nonce IS NULL", name="queued_has_no_nonce"),
    sa.CheckConstraint(
        "state NOT IN ('signed', 'sent', 'mined', 'final', 'replaced') OR "
        "(lane_id IS NOT NULL AND nonce IS NOT NULL AND tx_hash IS NOT NULL)",
        name="beyond_queued_has_a_transaction",
    ),
    sa.CheckConstraint(
        "state NOT IN ('mined', 'final', 'replaced') OR "
        "(outcome IS NOT NULL AND block_number IS NOT NULL AND block_hash IS NOT NULL)",
        name="mined_has_a_block",
    ),
    sa.CheckConstraint("state <> 'failed' OR reason IS NOT NULL", name="failed_says_why"),
    sa.CheckConstraint("depends_on < id", name="depends_on_an_earlier_one"),
    # A lane's nonce belongs to one intent forever; if a foreign transaction used it, the intent's nonce becomes null.
    sa.Index("uq_outbox_intent_lane_nonce", "lane_id", "nonce", unique=True),
    partial_index(
        "ix_outbox_intent_queue", "chain_id", "lane_group", sa.text("priority DESC"), "id", where="state = 'queued'"
    ),
    partial_index("ix_outbox_intent_live", "lane_id", where="state IN ('signed', 'sent', 'mined')"),
    partial_index("ix_outbox_intent_spending", "lane_id", "mined_at", where="mined_at IS NOT NULL"),
    partial_index("ix_outbox_intent_payer", "payer", "mined_at", where="payer IS NOT NULL AND mined_at IS NOT NULL"),
    partial_index(
        "ix_outbox_intent_payer_code", "payer_code", "mined_at", where="payer_code IS NOT NULL AND mined_at IS NOT NULL"
    ),
    partial_index(
        "ix_outbox_intent_ended",
        "chain_id",
        "state_at",
        where="state IN ('final', 'failed', 'replaced') AND NOT is_thinned",
    ),
    partial_index("ix_outbox_intent_depends_on", "depends_on", where="depends_on IS NOT NULL"),
)

# The lane that is having an intent signed by a key service, so that no other lane requests, and pays for, the same
# signature. It guards nothing: an intent gets its nonce under its row lock anyway, so there is no foreign key.
outbox_claim = table(
    "outbox_claim",
    sa.Column("intent_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("lane_id", sa.Integer, nullable=False),
    sa.Column("until", UtcDateTime, nullable=False),
)

# Signed transactions whose wallet events could not be appended at signing, because another process held the wallet's
# events. Rows are deleted once the events are written; failures are retried with growing pauses, then stay.
outbox_pending_notice = table(
    "outbox_pending_notice",
    sa.Column("intent_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tx_hash", Hash32, nullable=False),
    sa.Column("tries", sa.SmallInteger, nullable=False, server_default="0"),
    sa.Column("retry_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("problem", sa.Text),
)

# All signed transactions, stored before they are sent. Rows are never changed, and only retention deletes them. Several
# with one nonce are replacements.
outbox_transaction = table(
    "outbox_transaction",
    sa.Column("hash", Hash32, primary_key=True),
    sa.Column("intent_id", sa.BigInteger, sa.ForeignKey("outbox_intent.id"), nullable=False),
    sa.Column("lane_id", sa.Integer, sa.ForeignKey("outbox_lane.id"), nullable=False),
    sa.Column("nonce", sa.BigInteger, nullable=False),
    sa.Column("is_cancel", sa.Boolean, nullable=False),  # a no-op that takes the nonce instead of the call
    sa.Column("raw", sa.LargeBinary, nullable=False),
    sa.Column("gas_limit", sa.BigInteger, nullable=False),
    sa.Column("max_fee_wei", Uint256, nullable=False),
    sa.Column("max_priority_fee_wei", Uint256, nullable=False),
    sa.Column("signed_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Index("ix_outbox_transaction_intent_id", "intent_id"),
)

# All changes of state, written by a trigger on outbox_intent; another trigger refuses changes here except deletion by
# retention.
outbox_history = table(
    "outbox_history",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("intent_id", sa.BigInteger, sa.ForeignKey("outbox_intent.id"), nullable=False),
    sa.Column("from_state", sa.Text),  # null for a new intent
    sa.Column("to_state", sa.Text, nullable=False),
    sa.Column("tx_hash", Hash32),
    sa.Column("reason", sa.Text),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.clock_timestamp()),
    sa.Index("ix_outbox_history_intent_id", "intent_id"),
)

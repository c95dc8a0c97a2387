"""The tables with what the indexer has read of each chain: its cursor, blocks, raw logs, and logs that reorganizations
undid.

Raw logs are the source of all projections (`index_stock`, `index_agent`, `index_shared`): these can be rebuilt from
`chain_log` alone. Only a reorganization deletes a log, and it keeps the log in `chain_log_removed`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import metadata
from core.db.types import Address, BlockNumber, ChainTime, Hash32, UtcDateTime

# One row per chain. `number` and `hash` are the last indexed block: everything up to it is in the tables, nothing above
# it is. A writer advances it from the value it read, in the transaction that writes the rows.
# States: backfill -> tail -> backfill (far behind again); any -> halted (a reorganization beyond finality, or
# contradictory logs, as `problem` says; the last good state is served) -> tail (recovered).
chain_cursor = Table(
    "chain_cursor",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),  # "base" or "stock", as in the settings
    Column("start_block", BlockNumber, nullable=False),
    Column("number", BlockNumber, nullable=False),  # start_block - 1 before the first block
    Column("hash", Hash32),
    Column("block_time", ChainTime),
    Column("l1_block_number", BlockNumber),  # block.number as contracts see it; the block's own number elsewhere
    Column("head_number", BlockNumber),  # the newest block seen, indexed or not
    Column("head_time", ChainTime),
    Column("head_seen_at", UtcDateTime),  # when a node last reported its head
    Column("finalized_number", BlockNumber),  # the node's finalized block, where it has one
    Column("state", Text, nullable=False, server_default="backfill"),
    Column("problem", Text),
    Column("sources", JSONB, nullable=False),  # addresses that the tables were filled from, by role
    Column("summed", Boolean, nullable=False, server_default=false()),  # the tables of sums are valid
    Column("updated_at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("state IN ('backfill', 'tail', 'halted')", name="state_is_known"),
    CheckConstraint("(state = 'halted') = (problem IS NOT NULL)", name="a_halt_says_why"),
    CheckConstraint("number >= start_block - 1", name="not_before_the_start"),
    CheckConstraint("(hash IS NULL) = (number = start_block - 1)", name="a_block_has_a_hash"),
)

# Blocks with our logs, and recent blocks, which serve to detect reorganizations.
chain_block = Table(
    "chain_block",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("number", BlockNumber, primary_key=True),
    Column("hash", Hash32, nullable=False),
    Column("timestamp", ChainTime, nullable=False),
    Column("l1_block_number", BlockNumber, nullable=False),
)

# `topics` are the joined 32-byte topics. `entity` is what the log changes (core.contracts.events): a letter for the
# kind and the id in bytes, for example m and a stock market's id in 8 bytes; NULL for a log that only adds a row. Each
# partition is a range of one chain's blocks, created ahead by the indexer (indexer.store.blocks).
chain_log = Table(
    "chain_log",
    metadata,
    Column("chain_id", BigInteger, primary_key=True),
    Column("block_number", BlockNumber, primary_key=True),
    Column("log_index", Integer, primary_key=True),
    Column("tx_hash", Hash32, nullable=False),
    Column("address", Address, nullable=False),
    Column("topics", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("entity", LargeBinary),
    # An entity's logs are rarely read, and sorted then; without the block in the key, B-tree deduplication keeps the
    # index small.
    Index("ix_chain_log_entity", "chain_id", "entity", postgresql_where=text("entity IS NOT NULL")),
    postgresql_partition_by="RANGE (chain_id, block_number)",
)

chain_log_removed = Table(
    "chain_log_removed",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("reorg_id", BigInteger, nullable=False),
    Column("chain_id", BigInteger, nullable=False),
    Column("block_number", BlockNumber, nullable=False),
    Column("block_hash", Hash32, nullable=False),
    Column("log_index", Integer, nullable=False),
    Column("tx_hash", Hash32, nullable=False),
    Column("address", Address, nullable=False),
    Column("topics", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("entity", LargeBinary),
    Index("ix_chain_log_removed_reorg_id", "reorg_id"),
)

# Reorganizations: blocks above `ancestor_number` up to `from_number` were undone.
chain_reorg = Table(
    "chain_reorg",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("from_number", BlockNumber, nullable=False),
    Column("from_hash", Hash32, nullable=False),
    Column("ancestor_number", BlockNumber, nullable=False),
    Column("removed_logs", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    CheckConstraint("from_number > ancestor_number", name="goes_back"),
)

# Audits: how many numbers were compared with the contracts' views, each at the block of the tables at that time, from
# `first_block` to `block_number`, and which differed.
chain_audit = Table(
    "chain_audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("at", UtcDateTime, nullable=False, server_default=func.now()),
    Column("began_at", UtcDateTime, nullable=False),
    Column("first_block", BlockNumber, nullable=False),
    Column("block_number", BlockNumber, nullable=False),
    Column("block_hash", Hash32, nullable=False),
    Column("compared", BigInteger, nullable=False),
    Column("mismatches", BigInteger, nullable=False),
    Column("detail", JSONB, nullable=False),  # the first mismatches: [{what, key, field, ours, chain, block}]
    Index("ix_chain_audit_chain_id", "chain_id", "id"),
)

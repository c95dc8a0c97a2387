"""Tables for what the indexer has read from each chain: its cursor, blocks, raw logs and reorganizations.

Raw logs are the source of all projections (`index_stock`, `index_agent`, `index_shared`), which can be rebuilt from
`chain_log` alone. Only a reorganization deletes a log.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from core.db.schema import partial_index, table
from core.db.types import Address, BlockNumber, ChainTime, Hash32, UtcDateTime

# One row per chain. `number` and `hash` are the last indexed block: everything up to it is in the tables, nothing above
# it is. A writer advances it from the value it read, in the transaction that writes the rows.
# States: backfill -> tail -> backfill (far behind again); any -> halted (a reorganization beyond finality, or
# contradictory logs, as `problem` says; the last good state is served) -> tail (recovered).
chain_cursor = table(
    "chain_cursor",
    sa.Column("chain_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),  # "base" or "stock", as in the settings
    sa.Column("start_block", BlockNumber, nullable=False),
    sa.Column("number", BlockNumber, nullable=False),  # start_block - 1 before the first block
    sa.Column("hash", Hash32),
    sa.Column("block_time", ChainTime),
    sa.Column("l1_block_number", BlockNumber),  # block.number as contracts see it; the block's own number elsewhere
    sa.Column("head_number", BlockNumber),  # the newest block seen, indexed or not
    sa.Column("head_time", ChainTime),
    sa.Column("head_seen_at", UtcDateTime),  # when a node last reported its head
    sa.Column("finalized_number", BlockNumber),  # the node's finalized block, where it has one
    sa.Column("state", sa.Text, nullable=False, server_default="backfill"),
    sa.Column("problem", sa.Text),
    sa.Column("sources", JSONB, nullable=False),  # addresses that the tables were filled from, by role
    sa.Column("summed", sa.Boolean, nullable=False, server_default=sa.false()),  # the tables of sums are valid
    sa.Column("updated_at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("state IN ('backfill', 'tail', 'halted')", name="state_is_known"),
    sa.CheckConstraint("(state = 'halted') = (problem IS NOT NULL)", name="a_halt_says_why"),
    sa.CheckConstraint("number >= start_block - 1", name="not_before_the_start"),
    sa.CheckConstraint("(hash IS NULL) = (number = start_block - 1)", name="a_block_has_a_hash"),
)

# Blocks with our logs, and recent blocks, which serve to detect reorganizations.
chain_block = table(
    "chain_block",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("number", BlockNumber, primary_key=True),
    sa.Column("hash", Hash32, nullable=False),
    sa.Column("timestamp", ChainTime, nullable=False),
    sa.Column("l1_block_number", BlockNumber, nullable=False),
)

# `topics` are the joined 32-byte topics. `entity` is what the log changes (core.contracts.events): a letter for the
# kind and the id in bytes, for example m and a stock market's id in 8 bytes; NULL for a log that only adds a row. Each
# partition is a range of one chain's blocks, created ahead by the indexer (indexer.store.cursor).
chain_log = table(
    "chain_log",
    sa.Column("chain_id", sa.BigInteger, primary_key=True),
    sa.Column("block_number", BlockNumber, primary_key=True),
    sa.Column("log_index", sa.Integer, primary_key=True),
    sa.Column("tx_hash", Hash32, nullable=False),
    sa.Column("address", Address, nullable=False),
    sa.Column("topics", sa.LargeBinary, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Column("entity", sa.LargeBinary),
    # An entity's logs are rarely read, and sorted then; without the block in the key, B-tree deduplication keeps the
    # index small.
    partial_index("ix_chain_log_entity", "chain_id", "entity", where="entity IS NOT NULL"),
    postgresql_partition_by="RANGE (chain_id, block_number)",
)

# Reorganizations: blocks above `ancestor_number` up to `from_number` were undone.
chain_reorg = table(
    "chain_reorg",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("chain_id", sa.BigInteger, nullable=False),
    sa.Column("from_number", BlockNumber, nullable=False),
    sa.Column("from_hash", Hash32, nullable=False),
    sa.Column("ancestor_number", BlockNumber, nullable=False),
    sa.Column("removed_logs", sa.Integer, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.CheckConstraint("from_number > ancestor_number", name="goes_back"),
)

# Audits: how many numbers were compared with the contracts' views, each at the block of the tables at that time, from
# `first_block` to `block_number`, and which differed.
chain_audit = table(
    "chain_audit",
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("chain_id", sa.BigInteger, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False, server_default=sa.func.now()),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("first_block", BlockNumber, nullable=False),
    sa.Column("block_number", BlockNumber, nullable=False),
    sa.Column("block_hash", Hash32, nullable=False),
    sa.Column("compared", sa.BigInteger, nullable=False),
    sa.Column("mismatches", sa.BigInteger, nullable=False),
    sa.Column("detail", JSONB, nullable=False),  # the first mismatches: [{what, key, field, ours, chain, block}]
    sa.Index("ix_chain_audit_chain_id", "chain_id", "id"),
)

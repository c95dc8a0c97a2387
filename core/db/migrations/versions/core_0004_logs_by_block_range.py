"""Raw logs in partitions, a range of one chain's blocks each: `indexer.store.log_ranges` makes new ones."""

from __future__ import annotations

from alembic import op

revision = "core_0004"
down_revision = "core_0003"
branch_labels = None
depends_on = None

BLOCKS = 20_000_000
COLUMNS = "chain_id, block_number, log_index, tx_hash, address, topics, data, entity"
INDEX = "CREATE INDEX ix_chain_log_entity ON chain_log (chain_id, entity) WHERE entity IS NOT NULL"
DECLARATION = """
CREATE TABLE chain_log (
    chain_id BIGINT NOT NULL,
    block_number BIGINT NOT NULL,
    log_index INTEGER NOT NULL,
    tx_hash BYTEA NOT NULL,
    address BYTEA NOT NULL,
    topics BYTEA NOT NULL,
    data BYTEA NOT NULL,
    entity BYTEA,
    CONSTRAINT pk_chain_log PRIMARY KEY (chain_id, block_number, log_index)
)
"""


def upgrade() -> None:
    _aside()
    op.execute(DECLARATION + " PARTITION BY RANGE (chain_id, block_number)")
    op.execute(INDEX)
    found = op.get_bind().exec_driver_sql(
        f"SELECT DISTINCT chain_id, block_number / {BLOCKS} FROM chain_log_aside"  # noqa: S608 - our own number
    )
    for chain, number in found.all():
        bounds = f"FROM ({chain}, {number * BLOCKS}) TO ({chain}, {(number + 1) * BLOCKS})"
        op.execute(f"CREATE TABLE chain_log_{chain}_{number} PARTITION OF chain_log FOR VALUES {bounds}")
    _back()


def downgrade() -> None:
    _aside()
    op.execute(DECLARATION)
    op.execute(INDEX)
    _back()


def _aside() -> None:
    op.execute("CREATE TEMPORARY TABLE chain_log_aside ON COMMIT DROP AS TABLE chain_log")
    op.execute("DROP TABLE chain_log")


def _back() -> None:
    op.execute(f"INSERT INTO chain_log ({COLUMNS}) SELECT {COLUMNS} FROM chain_log_aside")  # noqa: S608 - our own names
    op.execute("DROP TABLE chain_log_aside")

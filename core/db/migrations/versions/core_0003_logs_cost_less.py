"""What makes writing history cost less: an index of raw logs that keeps an entity once for all of its logs, and room
for a second version of every position beside the first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "core_0003"
down_revision = "core_0002"
branch_labels = None
depends_on = None

NAME = "ix_chain_log_entity"
SOME_ENTITY = sa.text("entity IS NOT NULL")


def upgrade() -> None:
    op.drop_index(NAME, table_name="chain_log")
    op.create_index(NAME, "chain_log", ["chain_id", "entity"], postgresql_where=SOME_ENTITY)
    op.execute("ALTER TABLE stock_position SET (fillfactor = 50)")


def downgrade() -> None:
    op.execute("ALTER TABLE stock_position SET (fillfactor = 80)")
    op.drop_index(NAME, table_name="chain_log")
    op.create_index(
        NAME, "chain_log", ["chain_id", "entity", "block_number", "log_index"], postgresql_where=SOME_ENTITY
    )

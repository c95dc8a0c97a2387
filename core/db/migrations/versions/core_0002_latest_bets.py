"""The stock bets entered last are found without reading the others: a position's id tells no time, and seeds are no
bets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "core_0002"
down_revision = "core_0001"
branch_labels = None
depends_on = None

NAME = "ix_stock_position_bet"


def upgrade() -> None:
    bets = sa.text("vintage > 0")
    op.create_index(NAME, "stock_position", ["entered_at", "position_id"], postgresql_where=bets)


def downgrade() -> None:
    op.drop_index(NAME, table_name="stock_position")

"""How many stakes of a market are unpaid; indexes of what is open, of what changed, and of pages of the settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "index_0002"
down_revision = "index_0001"
branch_labels = None
depends_on = None

_UNPAID = (
    "closed_tx IS NOT NULL AND paid_principal < CASE WHEN voided THEN principal_up + principal_down "
    "WHEN winner = 0 THEN principal_up ELSE principal_down END"
)

_INDEXES: tuple[tuple[str, str, list[str], str | None], ...] = (
    ("ix_agent_market_open", "agent_market", ["market_id"], "status = 1"),
    ("ix_agent_market_closed", "agent_market", ["closed_at", "market_id"], "status <> 1"),
    ("ix_agent_market_updated", "agent_market", ["updated_block"], None),
    ("ix_agent_market_unpaid", "agent_market", ["market_id"], "unpaid > 0"),
    (
        "ix_agent_market_settled",
        "agent_market",
        ["feed", "kind", "closes_at", "listed_block", "listed_log_index"],
        "status <> 1",
    ),
    ("ix_agent_stake_staked_at", "agent_stake", ["staked_at"], None),
    ("ix_stock_market_open", "stock_market", ["market_id"], "closed_tx IS NULL"),
    ("ix_stock_market_closed", "stock_market", ["closed_at", "market_id"], "closed_tx IS NOT NULL"),
    ("ix_stock_market_unpaid", "stock_market", ["market_id"], _UNPAID),
    ("ix_stock_market_updated", "stock_market", ["updated_block"], None),
    ("ix_stock_market_drill", "stock_market", ["market_id"], "family = 2"),
)


# Late payments, winners, and every stake of a void market or one without a winning stake.
_COUNT_UNPAID = """
    UPDATE agent_market m SET unpaid = o.unpaid FROM (
        SELECT s.market_id, count(*) AS unpaid FROM agent_stake s JOIN agent_market m ON m.market_id = s.market_id
        LEFT JOIN agent_outcome w ON w.market_id = m.market_id AND w.outcome = m.winner
        WHERE s.status = 2 OR (s.status = 1 AND (m.status = 3 OR (m.status = 2 AND
            (w.shares = 0 OR s.outcome = m.winner))))
        GROUP BY s.market_id
    ) o WHERE o.market_id = m.market_id
"""


def upgrade() -> None:
    op.add_column("agent_market", sa.Column("unpaid", sa.Integer(), server_default="0", nullable=False))
    op.execute(_COUNT_UNPAID)
    for name, table, columns, where in _INDEXES:
        op.create_index(name, table, columns, postgresql_where=None if where is None else sa.text(where))


def downgrade() -> None:
    for name, table, *_ in reversed(_INDEXES):
        op.drop_index(name, table)
    op.drop_column("agent_market", "unpaid")

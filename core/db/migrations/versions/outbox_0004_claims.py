"""Claims: which lane is having an intent signed by a key service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "outbox_0004"
down_revision = "outbox_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outbox_claim",
        sa.Column("intent_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lane_id", sa.Integer(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("intent_id", name="pk_outbox_claim"),
    )


def downgrade() -> None:
    op.drop_table("outbox_claim")

"""An index of the payments' transactions that have not succeeded: few, however many have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "outbox_0003"
down_revision = "outbox_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_outbox_intent_unbooked",
        "outbox_intent",
        ["chain_id", "created_at"],
        postgresql_where=sa.text("kind IN ('settle', 'credit') AND outcome IS DISTINCT FROM 'succeeded'"),
    )


def downgrade() -> None:
    op.drop_index("ix_outbox_intent_unbooked", "outbox_intent")

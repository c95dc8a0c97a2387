"""An index that tells quickly whether an intent is some errand's latest attempt."""

from __future__ import annotations

from alembic import op

revision = "keeper_0002"
down_revision = "keeper_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_keeper_errand_intent_id", "keeper_errand", ["intent_id"])


def downgrade() -> None:
    op.drop_index("ix_keeper_errand_intent_id", "keeper_errand")

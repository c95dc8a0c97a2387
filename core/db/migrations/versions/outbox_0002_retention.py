"""What lets finished intents be thinned out and dropped: a mark, the indexes their search needs, and a key to the lock.

`outbox_history` and `outbox_transaction` still refuse every change, and every removal but those of
core.outbox.retention, which says so for its own transaction.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "outbox_0002"
down_revision = "outbox_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "outbox_intent", sa.Column("is_thinned", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.create_index(
        "ix_outbox_intent_ended",
        "outbox_intent",
        ["chain_id", "state_at"],
        postgresql_where=sa.text("state IN ('final', 'failed', 'replaced') AND NOT is_thinned"),
    )
    op.create_index(
        "ix_outbox_intent_depends_on",
        "outbox_intent",
        ["depends_on"],
        postgresql_where=sa.text("depends_on IS NOT NULL"),
    )
    op.execute(KEPT_UNLESS_OLD)


def downgrade() -> None:
    op.execute(KEPT_ALWAYS)
    op.drop_index("ix_outbox_intent_depends_on", "outbox_intent")
    op.drop_index("ix_outbox_intent_ended", "outbox_intent")
    op.drop_column("outbox_intent", "is_thinned")


KEPT_UNLESS_OLD = """
CREATE OR REPLACE FUNCTION outbox_rows_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('vpm.outbox_retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = TG_TABLE_NAME || ' rows are never changed';
END $$
"""
KEPT_ALWAYS = """
CREATE OR REPLACE FUNCTION outbox_rows_are_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'restrict_violation', MESSAGE = TG_TABLE_NAME || ' rows are never changed';
END $$
"""

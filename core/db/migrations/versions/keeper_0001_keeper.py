"""What the keeper remembers: errands, sightings, the last run of each job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "keeper_0001"
down_revision = None
branch_labels = ("keeper",)
depends_on = "outbox_0001"

UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "keeper_errand",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("intent_id", sa.BigInteger(), nullable=False),
        sa.Column("asked_at", UTC, server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "subject", name="pk_keeper_errand"),
        sa.ForeignKeyConstraint(["intent_id"], ["outbox_intent.id"], name="fk_keeper_errand_intent_id"),
        sa.CheckConstraint("attempts > 0", name="asked_at_least_once"),
        sa.CheckConstraint("failures >= 0 AND failures < attempts", name="failed_before_the_latest"),
    )
    op.create_table(
        "keeper_sighting",
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("since_block", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "subject", name="pk_keeper_sighting"),
    )
    op.create_table(
        "keeper_run",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("finished_at", UTC, nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("acted_at", UTC),
        sa.Column("report", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_keeper_run"),
    )


def downgrade() -> None:
    for table in ("keeper_run", "keeper_sighting", "keeper_errand"):
        op.drop_table(table)

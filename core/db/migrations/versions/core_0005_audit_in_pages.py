"""How far an audit is, so that one which was stopped goes on; and between which blocks its pages lay."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "core_0005"
down_revision = "core_0004"
branch_labels = None
depends_on = None

COUNTS = ("compared", "mismatches")


def upgrade() -> None:
    op.create_table(
        "chain_audit_progress",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("paged_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("first_block", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("place", JSONB()),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("mismatches", sa.BigInteger(), nullable=False),
        sa.Column("detail", JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", name="pk_chain_audit_progress"),
    )
    for name in COUNTS:
        op.alter_column("chain_audit", name, type_=sa.BigInteger())
    op.add_column("chain_audit", sa.Column("began_at", sa.DateTime(timezone=True)))
    op.add_column("chain_audit", sa.Column("first_block", sa.BigInteger()))
    op.execute("UPDATE chain_audit SET began_at = at, first_block = block_number")
    for name in ("began_at", "first_block"):
        op.alter_column("chain_audit", name, nullable=False)


def downgrade() -> None:
    for name in ("began_at", "first_block"):
        op.drop_column("chain_audit", name)
    for name in COUNTS:
        op.alter_column("chain_audit", name, type_=sa.Integer())
    op.drop_table("chain_audit_progress")

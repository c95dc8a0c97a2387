"""The first release's schema: all tables, then the functions and triggers of each area."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "core_0001"
down_revision = None
branch_labels = ("core",)
depends_on = None

BASELINE = Path(__file__).resolve().parents[1] / "baseline"


def upgrade() -> None:
    driver = op.get_bind().connection.driver_connection  # as it stands: SQLAlchemy would look for parameters in it
    assert driver is not None
    for path in sorted(BASELINE.glob("*.sql")):
        driver.execute(path.read_bytes())

"""The first release's schema: all tables, then by area what the database itself does when rows change."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
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


def downgrade() -> None:
    """Everything goes: before the first release there was nothing."""
    connection = op.get_bind()
    for table in sa.inspect(connection).get_table_names():
        if table != "alembic_version":
            connection.exec_driver_sql(f'DROP TABLE "{table}" CASCADE')
    functions = sa.text("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
    for function in connection.scalars(functions).all():
        connection.exec_driver_sql(f'DROP FUNCTION "{function}"')

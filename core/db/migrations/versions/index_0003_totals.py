"""Sums over agent markets, stock markets and stock entries, which triggers keep."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision = "index_0003"
down_revision = "index_0002"
branch_labels = None
depends_on = None

# By the table that is summed over: the sums' table, its key and the key of a row, its columns, and which rows count.
# What sums over sums comes after them.
_SUMS: Mapping[str, tuple[str, str, str, Mapping[str, str], str]] = {
    "agent_market": (
        "agent_total",
        "feed",
        "feed",
        {
            "settled": "(status <> 1)::int",
            "stakes": "stakes",
            "staked": "staked",
            "paid_out": "paid_out",
        },
        "true",
    ),
    "stock_market": (
        "stock_total",
        "family",
        "family",
        {
            "markets": "1",
            "settled": "(closed_tx IS NOT NULL)::int",
            "resolved": "(winner IS NOT NULL)::int",
            "seeded": "2 * seed_per_leg",
            "principal": "principal_up + principal_down",
            "fees": "fees",
            "paid": "paid",
        },
        "feed IS NOT NULL AND strike_time IS NOT NULL",
    ),
    "stock_position": (
        "stock_bettor",
        "owner",
        "owner",
        {"bets": "1", "offered": "offered", "payout": "payout"},
        "vintage > 0",
    ),
    "stock_bettor": (
        "stock_betting",
        "id",
        "1::smallint",
        {"wallets": "1", "bets": "bets", "offered": "offered", "payout": "payout"},
        "true",
    ),
}


def _sums(source: str, rows: str) -> str:
    _, key, of_row, columns, counts = _SUMS[source]
    listed = ", ".join(f"sum({each}) AS {name}" for name, each in columns.items())
    return f"SELECT {of_row} AS {key}, {listed} FROM {rows} WHERE {counts} GROUP BY 1"  # noqa: S608 - our own names


def _add(source: str) -> str:
    into, key, _, columns, _ = _SUMS[source]
    grown = ", ".join(f"{name} = t.{name} + excluded.{name}" for name in columns)
    return f"""
        INSERT INTO {into} AS t ({key}, {", ".join(columns)}) {_sums(source, "added")} ORDER BY {key}
        ON CONFLICT ({key}) DO UPDATE SET {grown};
    """


def _take_off(source: str) -> str:
    into, key, of_row, columns, _ = _SUMS[source]
    shrunk = ", ".join(f"{name} = t.{name} - r.{name}" for name in columns)
    gone = f"SELECT DISTINCT {of_row} AS {key} FROM removed"  # noqa: S608 - our own names
    nothing = " AND ".join(f"t.{name} = 0" for name in columns)
    return f"""
        UPDATE {into} AS t SET {shrunk} FROM ({_sums(source, "removed")}) r WHERE t.{key} = r.{key};
        DELETE FROM {into} AS t USING ({gone}) r WHERE t.{key} = r.{key} AND {nothing};
    """  # noqa: S608 - our own names


_BODIES = {
    "INSERT": ("REFERENCING NEW TABLE AS added", _add),
    "UPDATE": (
        "REFERENCING OLD TABLE AS removed NEW TABLE AS added",
        lambda source: _add(source) + _take_off(source),
    ),
    "DELETE": ("REFERENCING OLD TABLE AS removed", _take_off),
    "TRUNCATE": ("", lambda source: f"DELETE FROM {_SUMS[source][0]};"),  # noqa: S608 - our own names
}


def upgrade() -> None:
    op.create_table(
        "agent_total",
        sa.Column("feed", sa.LargeBinary(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=False),
        sa.Column("stakes", sa.BigInteger(), nullable=False),
        sa.Column("staked", sa.Numeric(78, 0), nullable=False),
        sa.Column("paid_out", sa.Numeric(78, 0), nullable=False),
        sa.PrimaryKeyConstraint("feed", name=op.f("pk_agent_total")),
    )
    op.create_table(
        "stock_total",
        sa.Column("family", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("markets", sa.BigInteger(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=False),
        sa.Column("resolved", sa.BigInteger(), nullable=False),
        sa.Column("seeded", sa.Numeric(78, 0), nullable=False),
        sa.Column("principal", sa.Numeric(78, 0), nullable=False),
        sa.Column("fees", sa.Numeric(78, 0), nullable=False),
        sa.Column("paid", sa.Numeric(78, 0), nullable=False),
        sa.PrimaryKeyConstraint("family", name=op.f("pk_stock_total")),
    )
    op.create_table(
        "stock_bettor",
        sa.Column("owner", sa.LargeBinary(), nullable=False),
        sa.Column("bets", sa.BigInteger(), nullable=False),
        sa.Column("offered", sa.Numeric(78, 0), nullable=False),
        sa.Column("payout", sa.Numeric(78, 0), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_stock_bettor")),
    )
    op.create_table(
        "stock_betting",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("wallets", sa.BigInteger(), nullable=False),
        sa.Column("bets", sa.BigInteger(), nullable=False),
        sa.Column("offered", sa.Numeric(78, 0), nullable=False),
        sa.Column("payout", sa.Numeric(78, 0), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stock_betting")),
    )
    for source, (into, key, _, columns, _) in _SUMS.items():
        op.execute(f"INSERT INTO {into} ({key}, {', '.join(columns)}) {_sums(source, source)}")
        for event, (tables, body) in _BODIES.items():
            name = f"sum_{source}_{event.lower()}"
            op.execute(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body(source)} RETURN NULL; "
                "END $$"
            )
            op.execute(
                f"CREATE TRIGGER {name} AFTER {event} ON {source} {tables} FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )


def downgrade() -> None:
    for source, (into, *_) in reversed(list(_SUMS.items())):
        for event in _BODIES:
            op.execute(f"DROP TRIGGER sum_{source}_{event.lower()} ON {source}")
            op.execute(f"DROP FUNCTION sum_{source}_{event.lower()}()")
        op.drop_table(into)

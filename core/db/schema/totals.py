"""Sums over the projections, which the database itself keeps: whoever changes a row changes them with it.

They are what statistics and the proof page show of all that ever was, without reading it. Each is exactly the sum over
its table at every commit, whatever wrote there (folding, a reorganization, a rebuild): triggers (2_totals.sql) add what
a statement added and take off what it removed.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, SmallInteger, Table

from core.db.schema import metadata
from core.db.types import Address, Uint256

# Of `agent_market`, by the feed.
agent_total = Table(
    "agent_total",
    metadata,
    Column("feed", Address, primary_key=True),
    Column("settled", BigInteger, nullable=False),  # resolved or void
    Column("stakes", BigInteger, nullable=False),
    Column("staked", Uint256, nullable=False),
    Column("paid_out", Uint256, nullable=False),
)

# Of the listed markets in `stock_market`, by the family; amounts in token units.
stock_total = Table(
    "stock_total",
    metadata,
    Column("family", SmallInteger, primary_key=True, autoincrement=False),
    Column("markets", BigInteger, nullable=False),
    Column("settled", BigInteger, nullable=False),  # resolved or void
    Column("resolved", BigInteger, nullable=False),
    Column("seeded", Uint256, nullable=False),
    Column("principal", Uint256, nullable=False),  # both books as stored, without a batch that is pending
    Column("fees", Uint256, nullable=False),
    Column("paid", Uint256, nullable=False),
)

# Of the entries in `stock_position`, without the seeds, by who made them.
stock_bettor = Table(
    "stock_bettor",
    metadata,
    Column("entered_by", Address, primary_key=True),
    Column("bets", BigInteger, nullable=False),
    Column("offered", Uint256, nullable=False),
    Column("payout", Uint256, nullable=False),
)

# Of `stock_bettor`: one row, once there is a bet.
stock_betting = Table(
    "stock_betting",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),  # 1
    Column("wallets", BigInteger, nullable=False),
    Column("bets", BigInteger, nullable=False),
    Column("offered", Uint256, nullable=False),
    Column("payout", Uint256, nullable=False),
)


def totals_of(side: str) -> list[Table]:
    """The totals of the stock or the agent side: the tables here whose names begin with it."""
    return [each for each in globals().values() if isinstance(each, Table) and each.name.startswith(f"{side}_")]

"""Sums over the projections. Reading a sum takes the same time however long the history is.

A step subtracts the shares of the rows that it may change. After changing the rows, it adds their new shares, and
deletes each sum that no longer covers any row. The first backfill keeps no sums. At its end, all rows are summed and
`chain_cursor.summed` is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, LiteralString

from psycopg.sql import SQL, Identifier
from sqlalchemy import Table

from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus
from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import Connection
from core.db.schema.index_agent import agent_holding, agent_total
from core.db.schema.index_stock import stock_betting, stock_bettor, stock_holding, stock_total
from core.money import BPS
from core.stock.projection import ACCEPTED
from core.stock.vested import UP, S
from indexer.fold.rows import AffectedRows
from indexer.sources import Sources
from indexer.store.cursor import Cursor, lock_cursor
from indexer.store.tables import clear, remove, scan_tables


@dataclass(frozen=True, slots=True)
class _Sum:
    """A table of sums. `parts` is a query for the share of each projection row. Its columns are those of the table: the
    key, then 1 for the row, then amounts. `chosen` is an SQL condition that selects rows by arrays of `AffectedRows`,
    and `named` lists these arrays.

    `total` has one row, the sums over this table. The statement `adding` updates that row from the added shares
    (`part`) and the resulting rows (`changed`).
    """

    table: Table
    parts: LiteralString
    chosen: LiteralString
    named: tuple[str, ...]
    total: Table | None = None
    adding: LiteralString = ""


# ---------------------------------------------------------------- stock markets

_LISTED = "m.feed IS NOT NULL AND m.strike_time IS NOT NULL"

_STOCK_TOTAL = f"""
SELECT m.family, 1, (m.closed_tx IS NOT NULL)::int, (m.winner IS NOT NULL)::int, 2 * m.seed_per_leg,
    m.principal_up + m.principal_down, m.fees, m.paid
FROM stock_market m WHERE {_LISTED} AND {{chosen}}
"""  # noqa: S608 - constants only

# Under its market while that is open, and under market 0 after settlement. The formulas are those of
# `core.stock.vested`; every quotient rounds down.
_STOCK_HOLDING = f"""
SELECT p.owner, CASE WHEN m.closed_tx IS NULL THEN p.market_id ELSE 0 END,
    CASE WHEN m.closed_tx IS NULL THEN p.outcome ELSE 0 END,
    1, p.offered, CASE WHEN taken IS NULL THEN p.offered ELSE 0 END, coalesce(p.offered - accepted, 0),
    CASE WHEN m.closed_tx IS NULL THEN coalesce(accepted * entry_acc, 0) ELSE 0 END,
    CASE WHEN m.voided THEN accepted
        WHEN m.winner = p.outcome THEN gross - div(greatest(gross - accepted, 0) * m.fee_bps, {BPS}) ELSE 0 END,
    p.payout, p.refund
FROM stock_position p
JOIN stock_market m ON m.market_id = p.market_id AND {_LISTED}
JOIN stock_vintage v ON v.market_id = p.market_id AND v.vintage = p.vintage
CROSS JOIN LATERAL (SELECT
    CASE p.outcome WHEN {UP} THEN v.offered_up ELSE v.offered_down END AS demanded,
    CASE p.outcome WHEN {UP} THEN v.accepted_up ELSE v.accepted_down END AS taken,
    CASE p.outcome WHEN {UP} THEN v.entry_acc_up ELSE v.entry_acc_down END AS entry_acc,
    CASE p.outcome WHEN {UP} THEN m.acc_up ELSE m.acc_down END AS acc) side
CROSS JOIN LATERAL (SELECT {ACCEPTED} AS accepted) share
CROSS JOIN LATERAL (SELECT CASE WHEN m.winner = p.outcome THEN div(accepted * ({S} + acc - entry_acc), {S}) END
    AS gross) promise
WHERE {{chosen}}
"""  # noqa: S608 - constants only

_STOCK_BETTOR = "SELECT p.entered_by, 1, p.offered, p.payout FROM stock_position p WHERE p.vintage > 0 AND {chosen}"

# A wallet counts from its first bet until its last is removed. If it has more `bets` than were just added, it had some
# before.
_STOCK_BETTING = """
INSERT INTO stock_betting AS t (id, wallets, bets, offered, payout)
SELECT 1, coalesce(sum((changed.bets > 0)::int - (changed.bets > part.bets)::int), 0), coalesce(sum(part.bets), 0),
    coalesce(sum(part.offered), 0), coalesce(sum(part.payout), 0)
FROM part JOIN changed USING (entered_by)
ON CONFLICT (id) DO UPDATE SET wallets = t.wallets + excluded.wallets, bets = t.bets + excluded.bets,
    offered = t.offered + excluded.offered, payout = t.payout + excluded.payout
"""

_NAMED = """
    SELECT unnest(%(ids)s::bigint[])
    UNION SELECT position_id FROM stock_position WHERE market_id = ANY(%(whole)s::bigint[])
"""
_OF_VINTAGES = """
    UNION SELECT position_id FROM unnest(%(matched)s::bigint[], %(vintages)s::bigint[]) AS k (of_market, number)
        JOIN stock_position ON market_id = of_market AND vintage = number
"""

# ---------------------------------------------------------------- agent markets

_AGENT_TOTAL = f"""
SELECT m.feed, 1, (m.status <> {AgentMarketStatus.OPEN:d})::int, m.stakes, m.staked, m.paid_out
FROM agent_market m WHERE {{chosen}}
"""  # noqa: S608 - constants only

# The formulas are those of `core.agent.book`; every quotient rounds down. A late payment is refunded in full, so it
# counts as settled at once.
_AGENT_HOLDING = f"""
SELECT s.wallet, CASE WHEN settled THEN decode(repeat('00', 32), 'hex') ELSE s.market_id END,
    CASE WHEN settled THEN 0 ELSE s.outcome END,
    1, s.amount, CASE WHEN settled THEN 0 ELSE s.shares END,
    CASE WHEN NOT settled THEN 0 WHEN refunds THEN s.amount WHEN s.outcome <> m.winner THEN 0
        WHEN m.net_pool >= w.shares THEN div(s.shares * m.net_pool, w.shares)
        ELSE s.amount - s.fee + div(greatest(s.shares - s.amount + s.fee, 0) * (m.net_pool - w.net), w.excess) END
FROM agent_stake s
JOIN agent_market m ON m.market_id = s.market_id
LEFT JOIN agent_outcome w ON w.market_id = s.market_id AND w.outcome = m.winner
CROSS JOIN LATERAL (SELECT s.outcome IS NULL OR m.status <> {AgentMarketStatus.OPEN:d} AS settled,
    s.outcome IS NULL OR m.winner IS NULL OR w.shares = 0 OR w.net = m.net_pool AS refunds) state
WHERE {{chosen}}
"""  # noqa: S608 - constants only

_STAKES = """s.stake_id IN (
    SELECT unnest(%(ids)s::bigint[]) UNION SELECT stake_id FROM agent_stake WHERE market_id = ANY(%(whole)s::bytea[])
)"""

# ---------------------------------------------------------------- updating them

_SUMS = {
    Role.SETTLER: (
        _Sum(stock_total, _STOCK_TOTAL, "m.market_id = ANY(%(markets)s::bigint[])", ("markets",)),
        _Sum(stock_holding, _STOCK_HOLDING, f"p.position_id IN ({_NAMED}{_OF_VINTAGES})", ("ids", "whole", "vintages")),
        _Sum(
            stock_bettor,
            _STOCK_BETTOR,
            f"p.position_id IN ({_NAMED})",
            ("ids", "whole"),
            total=stock_betting,
            adding=_STOCK_BETTING,
        ),
    ),
    Role.WALLET: (
        _Sum(agent_total, _AGENT_TOTAL, "m.market_id = ANY(%(markets)s::bytea[])", ("markets",)),
        _Sum(agent_holding, _AGENT_HOLDING, _STAKES, ("ids", "whole")),
    ),
}


def _sums_of(sources: Sources) -> list[_Sum]:
    return [each for role, sums in _SUMS.items() if role in sources.contracts for each in sums]


def tables_of(sources: Sources) -> list[Table]:
    """Return the tables of sums that a chain fills."""
    return [table for each in _sums_of(sources) for table in (each.table, each.total) if table is not None]


@asynccontextmanager
async def sums_updated(
    connection: Connection, cursor: Cursor, affected_rows: Mapping[Role, AffectedRows]
) -> AsyncIterator[None]:
    """Update the sums for `affected_rows`, which the caller changes inside this context. Sums
    without rows are deleted only at the end, since most of them get a row again."""
    if not cursor.summed:
        yield
        return
    counts: dict[Table, dict[tuple[Any, ...], int]] = {}
    await _add_to_sums(connection, affected_rows, -1, counts)
    yield
    await _add_to_sums(connection, affected_rows, 1, counts)
    for table, by_key in counts.items():
        key = tuple(column.name for column in table.primary_key.columns)
        await remove(connection, table, key, [each for each, count in by_key.items() if count == 0])


async def _add_to_sums(
    connection: Connection,
    affected_rows: Mapping[Role, AffectedRows],
    sign: int,
    counts: dict[Table, dict[tuple[Any, ...], int]],
) -> None:
    """Add the rows' shares times `sign`, and store in `counts` how many rows each changed sum covers."""
    for role, some in affected_rows.items():
        values = {
            "ids": some.ids if sign < 0 else [*some.ids, *some.added],
            "matched": [market_id for market_id, _ in some.vintages],
            "vintages": [number for _, number in some.vintages],
            "whole": some.whole,
            "markets": some.markets,
        }
        for each in _SUMS[role]:
            if any(values[name] for name in each.named):
                rows = await connection.fetch_all(_statement(each, each.chosen, sign), values)
                counts.setdefault(each.table, {}).update({tuple(key): count for count, *key in rows})


async def sum_all(connection: Connection, sources: Sources, cursor: Cursor) -> Cursor:
    """Sum all rows of a chain in one transaction. From then on, every step updates the sums."""
    async with connection.transaction():
        kept = await lock_cursor(connection, cursor)
        await fill(connection, sources)
        await connection.execute("UPDATE chain_cursor SET summed = true WHERE chain_id = %s", (cursor.chain_id,))
        await notify(connection, CHAIN_INDEXED, IndexStep(cursor.chain_id, cursor.number, everything=True))
    return replace(kept, summed=True)


async def fill(connection: Connection, sources: Sources) -> None:
    await scan_tables(connection)
    for table in tables_of(sources):
        await clear(connection, table, sources.chain_id)
    for each in _sums_of(sources):
        await connection.execute(_statement(each, "true", 1))


@cache
def _statement(each: _Sum, chosen: LiteralString, sign: int) -> bytes:
    """Return the SQL statement that adds the chosen rows' shares times `sign`. The statement returns the row count and
    key of each changed sum."""
    columns = [Identifier(column.name) for column in each.table.columns]
    keys = len(each.table.primary_key.columns)
    key, sums = columns[:keys], columns[keys:]
    return (
        SQL(
            "WITH part AS (SELECT {key}, {totals} FROM ({parts}) AS parts ({columns}) GROUP BY {key}),"
            " changed AS (INSERT INTO {table} AS t ({columns}) SELECT * FROM part ON CONFLICT ({key})"
            " DO UPDATE SET {changes} RETURNING t.*){total} SELECT {count}, {key} FROM changed"
        )
        .format(
            table=Identifier(each.table.name),
            columns=SQL(", ").join(columns),
            key=SQL(", ").join(key),
            totals=SQL(", ").join(SQL("{0} * sum({1}) AS {1}").format(sign, name) for name in sums),
            parts=SQL(each.parts).format(chosen=SQL(chosen)),
            changes=SQL(", ").join(SQL("{0} = t.{0} + excluded.{0}").format(name) for name in sums),
            total=SQL(f", total AS ({each.adding})" if each.adding else ""),
            count=sums[0],
        )
        .as_bytes()
    )

"""What each owner holds, summed, so that reading it costs the same however many positions that is.

A position counts under its market while the market is open, and under no market once it is settled; what it counts for
follows from its row and those of its vintage and market. A step takes off what the positions it may change counted for,
and adds what they count for afterwards. Until history is read nothing is summed: then all of it is, once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import LiteralString

from psycopg.sql import SQL, Composed, Identifier
from sqlalchemy import Table

from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus
from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import Connection
from core.db.schema.index_agent import agent_holding
from core.db.schema.index_stock import stock_holding
from core.stock.classic import BPS
from core.stock.vested import UP, S
from indexer.fold.rows import Restated
from indexer.sources import Sources
from indexer.store.cursor import Cursor, keep

# As `core.stock.vested` has it, with the same roundings: every quotient rounds down.
_STOCK_PARTS = f"""
SELECT p.owner, CASE WHEN m.closed_tx IS NULL THEN p.market_id ELSE 0 END,
    CASE WHEN m.closed_tx IS NULL THEN p.outcome ELSE 0 END,
    1, p.offered, CASE WHEN taken IS NULL THEN p.offered ELSE 0 END, coalesce(p.offered - accepted, 0),
    CASE WHEN m.closed_tx IS NULL THEN coalesce(accepted * entry_acc, 0) ELSE 0 END,
    CASE WHEN m.voided THEN accepted
        WHEN m.winner = p.outcome THEN gross - div(greatest(gross - accepted, 0) * m.fee_bps, {BPS}) ELSE 0 END,
    p.payout, p.refund
FROM stock_position p
JOIN stock_market m ON m.market_id = p.market_id AND m.feed IS NOT NULL AND m.strike_time IS NOT NULL
JOIN stock_vintage v ON v.market_id = p.market_id AND v.vintage = p.vintage
CROSS JOIN LATERAL (SELECT
    CASE p.outcome WHEN {UP} THEN v.offered_up ELSE v.offered_down END AS demanded,
    CASE p.outcome WHEN {UP} THEN v.accepted_up ELSE v.accepted_down END AS taken,
    CASE p.outcome WHEN {UP} THEN v.entry_acc_up ELSE v.entry_acc_down END AS entry_acc,
    CASE p.outcome WHEN {UP} THEN m.acc_up ELSE m.acc_down END AS acc) side
CROSS JOIN LATERAL (SELECT CASE WHEN taken = demanded THEN p.offered
    ELSE div((p.offered_before + p.offered) * taken, demanded) - div(p.offered_before * taken, demanded) END
    AS accepted) share
CROSS JOIN LATERAL (SELECT CASE WHEN m.winner = p.outcome THEN div(accepted * ({S} + acc - entry_acc), {S}) END
    AS gross) promise
"""  # noqa: S608 - constants only

# As `core.agent.book` has it. A late payment is given back whole, so it counts as settled at once.
_AGENT_PARTS = f"""
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
"""  # noqa: S608 - constants only


_STOCK_CHOSEN = """p.position_id IN (
    SELECT unnest(%(ids)s::bigint[])
    UNION SELECT position_id FROM stock_position WHERE market_id = ANY(%(markets)s::bigint[])
    UNION SELECT position_id FROM unnest(%(of)s::bigint[], %(numbers)s::bigint[]) AS k (of_market, number)
        JOIN stock_position ON market_id = of_market AND vintage = number
)"""
_AGENT_CHOSEN = """s.stake_id IN (
    SELECT unnest(%(ids)s::bigint[]) UNION SELECT stake_id FROM agent_stake WHERE market_id = ANY(%(markets)s::bytea[])
)"""


@dataclass(frozen=True, slots=True)
class _Side:
    """Where the positions of one kind of markets are summed. `parts` selects what each counts for, in the order of the
    columns of `holding`; `chosen` is the condition for those that a `Restated` names."""

    role: Role
    holding: Table
    parts: LiteralString
    chosen: LiteralString

    @property
    def count(self) -> str:
        """The column that counts positions, the first behind the key."""
        return self.holding.columns.keys()[3]


_SIDES = {
    "stock": _Side(Role.SETTLER, stock_holding, _STOCK_PARTS, _STOCK_CHOSEN),
    "agent": _Side(Role.WALLET, agent_holding, _AGENT_PARTS, _AGENT_CHOSEN),
}


def sides_of(sources: Sources) -> list[_Side]:
    """Return the sides that a chain has."""
    return [side for side in _SIDES.values() if side.role in sources.contracts]


@asynccontextmanager
async def restating(connection: Connection, cursor: Cursor, restated: Mapping[str, Restated]) -> AsyncIterator[None]:
    """Keep the sums equal to the positions while the rows named by `restated` are changed within this context."""
    if cursor.summed:
        for side, some in restated.items():
            await _count(connection, _SIDES[side], some, -1)
    yield
    if cursor.summed:
        for side, some in restated.items():
            await _count(connection, _SIDES[side], some, 1)


async def sum_all(connection: Connection, sources: Sources, cursor: Cursor) -> Cursor:
    """Sum all positions of a chain anew, in a transaction of its own; from then on every step keeps the sums."""
    async with connection.transaction():
        kept = await keep(connection, cursor)
        await fill(connection, sources)
        await connection.execute("UPDATE chain_cursor SET summed = true WHERE chain_id = %s", (cursor.chain_id,))
        await notify(connection, CHAIN_INDEXED, IndexStep(cursor.chain_id, cursor.number, everything=True))
    return replace(kept, summed=True)


async def fill(connection: Connection, sources: Sources) -> None:
    """Write the sums of all positions, inside the caller's transaction."""
    await connection.execute(
        b"SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on"
    )
    for side in sides_of(sources):
        await connection.execute(SQL("DELETE FROM {}").format(Identifier(side.holding.name)))
        await connection.execute(_adding(side, "true", 1))


async def _count(connection: Connection, side: _Side, some: Restated, sign: int) -> None:
    if some.ids or some.vintages or some.markets:
        of, numbers = ([key[place] for key in some.vintages] for place in (0, 1))
        values = {"ids": some.ids, "markets": some.markets, "of": of, "numbers": numbers}
        await connection.execute(_adding(side, side.chosen, sign), values)
        if sign > 0:
            empty = SQL("DELETE FROM {} WHERE {} = 0").format(Identifier(side.holding.name), Identifier(side.count))
            await connection.execute(empty)


def _adding(side: _Side, chosen: LiteralString, sign: int) -> Composed:
    """Add what the chosen positions count for, times `sign`, to the sums."""
    columns = [Identifier(column.name) for column in side.holding.columns]
    key, sums = columns[:3], columns[3:]
    return SQL(
        "INSERT INTO {table} AS h ({columns}) SELECT {key}, {totals} FROM ({parts} WHERE {chosen}) AS part ({columns})"
        " GROUP BY {key} ON CONFLICT ({key}) DO UPDATE SET {changes}"
    ).format(
        table=Identifier(side.holding.name),
        columns=SQL(", ").join(columns),
        key=SQL(", ").join(key),
        totals=SQL(", ").join(SQL("{} * sum({})").format(sign, each) for each in sums),
        parts=SQL(side.parts),
        chosen=SQL(chosen),
        changes=SQL(", ").join(SQL("{0} = h.{0} + excluded.{0}").format(each) for each in sums),
    )

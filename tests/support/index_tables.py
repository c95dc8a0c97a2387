"""The indexer's tables, to compare one database with another and with the chain's state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from core.db.engine import Connection, ConnectionPool, make_pool
from core.db.schema import index_agent, index_shared, index_stock
from core.db.schema.index import chain_log
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import settlement
from core.stock.vested_fold import AFTERWARDS
from indexer.chain import ChainFollower
from indexer.fold.stock import MARKET, POSITION, VINTAGE
from indexer.node import RpcNode
from indexer.sources import Sources
from indexer.store.tables import all_rows
from keeper.stock.deliver import residue_due
from tests.support.index_world import World

PROJECTIONS = tuple(
    table
    for module in (index_stock, index_agent, index_shared)
    for table in vars(module).values()
    if isinstance(table, sa.Table)
)
CONTENTS = (*PROJECTIONS, chain_log)

Tables = dict[str, list[tuple[Any, ...]]]


async def contents(connection: Connection) -> Tables:
    found: Tables = {}
    for table in CONTENTS:
        key = ", ".join(column.name for column in table.primary_key.columns)
        rows = await connection.execute(f"SELECT * FROM {table.name} ORDER BY {key}".encode())
        found[table.name] = await rows.fetchall()
    rows = await connection.execute(
        "SELECT * FROM chain_block b WHERE EXISTS (SELECT FROM chain_log l WHERE l.chain_id = b.chain_id"
        " AND l.block_number = b.number) ORDER BY chain_id, number"
    )
    found["chain_block"] = await rows.fetchall()
    return found


async def wipe(connection: Connection) -> None:
    names = [table.name for table in CONTENTS]
    names += ["chain_block", "chain_cursor", "chain_reorg", "chain_audit"]
    await connection.execute(f"TRUNCATE {', '.join(names)}".encode())


async def fresh_index(url: str, node: RpcNode, sources: Sources, *, finality_blocks: int = 64) -> Tables:
    async with make_pool(url, size=1) as pool:
        async with pool.connection() as connection:
            await wipe(connection)
        follower = ChainFollower(node, sources, pool, finality_blocks=finality_blocks)
        await follower.open()
        await follower.catch_up()
        async with pool.connection() as connection:
            return await contents(connection)


def differences(ours: Tables, theirs: Tables) -> list[str]:
    found = []
    for name, rows in ours.items():
        if rows != theirs[name]:
            pair = next(
                (pair for pair in zip(rows, theirs[name], strict=False) if pair[0] != pair[1]),
                (f"{len(rows)} rows", f"{len(theirs[name])} rows"),
            )
            found.append(f"{name}: {pair[0]} instead of {pair[1]}")
    return found


async def check_stock_against(connection: Connection, world: World) -> None:
    ledger = world.ledger
    assert {row.market_id: market_of(row) for row in await all_rows(connection, MARKET)} == ledger.markets
    positions = await all_rows(connection, POSITION)
    assert {row.position_id: position_of(row) for row in positions} == ledger.positions
    vintages = {(row.market_id, row.vintage): vintage_of(row) for row in await all_rows(connection, VINTAGE)}
    assert vintages == ledger.vintages
    entries: dict[int, list[int]] = {market: [] for market in ledger.markets}
    for row in sorted(positions, key=lambda row: row.ordinal):
        entries[row.market_id].append(row.position_id)
    assert entries == ledger.entries


SUMS = {
    "SELECT count(*) FILTER (WHERE status <> 1), sum(stakes), sum(staked), sum(paid_out) FROM agent_market": (
        "SELECT sum(settled), sum(stakes), sum(staked), sum(paid_out) FROM agent_total"
    ),
    "SELECT count(*), count(closed_tx), count(winner), sum(2 * seed_per_leg), sum(principal_up + principal_down),"
    " sum(fees), sum(paid) FROM stock_market WHERE feed IS NOT NULL AND strike_time IS NOT NULL": (
        "SELECT sum(markets), sum(settled), sum(resolved), sum(seeded), sum(principal), sum(fees), sum(paid)"
        " FROM stock_total"
    ),
    "SELECT count(DISTINCT entered_by), count(*), sum(offered), sum(payout) FROM stock_position WHERE vintage > 0": (
        "SELECT sum(wallets), sum(bets), sum(offered), sum(payout) FROM stock_betting"
    ),
}
"""Sums over all rows, and where the database keeps them."""

_UNPAID = (
    "SELECT m.market_id, m.unpaid, count(s.stake_id) FILTER (WHERE s.status = 2 OR (s.status = 1 AND (m.status = 3 OR"
    " (m.status = 2 AND (w.shares = 0 OR s.outcome = m.winner))))) FROM agent_market m"
    " LEFT JOIN agent_stake s ON s.market_id = m.market_id"
    " LEFT JOIN agent_outcome w ON w.market_id = m.market_id AND w.outcome = m.winner GROUP BY m.market_id"
)

_REFUSED = (
    "SELECT market_id, m.refused, coalesce(sum(offered_up + offered_down - accepted_up - accepted_down), 0)"
    " FROM stock_market m JOIN stock_vintage USING (market_id) GROUP BY market_id"
)


async def check_counts(connection: Connection) -> int:
    """Check each stored sum, and each market's refused amount and number of unpaid stakes, against the rows. Return the
    number of unpaid stakes."""
    for rows, kept in SUMS.items():
        over = await (await connection.execute(rows.encode())).fetchone()
        held = await (await connection.execute(kept.encode())).fetchone()
        assert over is not None
        assert held is not None
        assert [each or 0 for each in held] == [each or 0 for each in over], kept
    refused = await (await connection.execute(_REFUSED.encode())).fetchall()
    assert [row for row in refused if row[1] != row[2]] == []
    counted = await (await connection.execute(_UNPAID.encode())).fetchall()
    assert [row for row in counted if row[1] != row[2]] == []
    return sum(row[1] for row in counted)


async def check_owing(connection: Connection) -> set[int]:
    """Check that the keeper looks at exactly the settled markets with unpaid positions, and for dust at those that have
    some. Return the former."""
    rows = {row.market_id: row for row in await all_rows(connection, MARKET)}
    markets = {market_id: market_of(row) for market_id, row in rows.items()}
    vintages = {(row.market_id, row.vintage): vintage_of(row) for row in await all_rows(connection, VINTAGE)}
    owing = {
        row.market_id
        for row in await all_rows(connection, POSITION)
        if settlement(
            markets[row.market_id], position_of(row), vintages[row.market_id, row.vintage], AFTERWARDS
        ).deliverable
    }
    looked_at = await _those(connection, index_stock.OWING)
    assert owing <= looked_at
    settled = {market_id for market_id, market in markets.items() if market.settled}
    assert looked_at & settled == owing & settled
    dusty = {market_id for market_id, market in markets.items() if residue_due(market)}
    assert await _those(connection, index_stock.DUSTY) == dusty
    return owing & settled


async def _those(connection: Connection, condition: str) -> set[int]:
    cursor = await connection.execute(f"SELECT market_id FROM stock_market WHERE {condition}".encode())
    return {market_id for (market_id,) in await cursor.fetchall()}


@asynccontextmanager
async def following(
    url: str, node: RpcNode, sources: Sources, *, finality_blocks: int = 64, afresh: bool = False
) -> AsyncIterator[tuple[ChainFollower, ConnectionPool]]:
    """Run a follower with its own pool and cursor. `afresh`: empty the tables and let it read the whole chain first."""
    async with make_pool(url, size=2) as pool:
        follower = ChainFollower(node, sources, pool, finality_blocks=finality_blocks)
        if afresh:
            async with pool.connection() as connection:
                await wipe(connection)
        await follower.open()
        if afresh:
            await follower.catch_up()
        yield follower, pool

"""What the indexer wrote, for comparing one database with another and with the chain's own state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from core.db.engine import Pool, make_pool
from core.db.schema import index_agent, index_shared, index_stock
from core.db.schema.index import chain_log
from core.projections.stock import market_of, position_of, vintage_of
from indexer.chain import ChainFollower
from indexer.fold.stock import MARKET, POSITION, VINTAGE
from indexer.node import Node
from indexer.sources import Sources
from indexer.store.tables import all_rows
from tests.support.index_world import World

PROJECTIONS = tuple(
    table
    for module in (index_stock, index_agent, index_shared)
    for table in vars(module).values()
    if isinstance(table, sa.Table)
)
CONTENTS = (*PROJECTIONS, chain_log)

Tables = dict[str, list[tuple[Any, ...]]]


async def contents(connection: AsyncConnection[TupleRow]) -> Tables:
    """Every row of every projection, the raw logs, and the blocks that hold logs."""
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


async def wipe(connection: AsyncConnection[TupleRow]) -> None:
    names = [table.name for table in CONTENTS]
    names += ["chain_block", "chain_cursor", "chain_log_removed", "chain_reorg", "chain_audit"]
    await connection.execute(f"TRUNCATE {', '.join(names)}".encode())


async def fresh_index(url: str, node: Node, sources: Sources, *, finality_blocks: int = 64) -> Tables:
    """What an index that has never seen anything else makes of the chain as it is."""
    async with make_pool(url, size=1) as pool:
        async with pool.connection() as connection:
            await wipe(connection)
        follower = ChainFollower(node, sources, pool, finality_blocks=finality_blocks)
        await follower.open()
        await follower.catch_up()
        async with pool.connection() as connection:
            return await contents(connection)


def differences(ours: Tables, theirs: Tables) -> list[str]:
    """The first difference of each table that has one."""
    found = []
    for name, rows in ours.items():
        if rows != theirs[name]:
            pair = next(
                (pair for pair in zip(rows, theirs[name], strict=False) if pair[0] != pair[1]),
                (f"{len(rows)} rows", f"{len(theirs[name])} rows"),
            )
            found.append(f"{name}: {pair[0]} instead of {pair[1]}")
    return found


async def check_stock_against(connection: AsyncConnection[TupleRow], world: World) -> None:
    """The stock tables, as the mirror's values, are the world's own ledger."""
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


@asynccontextmanager
async def following(
    url: str, node: Node, sources: Sources, *, finality_blocks: int = 64
) -> AsyncIterator[tuple[ChainFollower, Pool]]:
    """A follower with a pool of its own, its cursor read."""
    async with make_pool(url, size=2) as pool:
        follower = ChainFollower(node, sources, pool, finality_blocks=finality_blocks)
        await follower.open()
        yield follower, pool

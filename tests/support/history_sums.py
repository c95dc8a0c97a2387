"""Sums over tables that a test filled, made as the indexer makes them at the end of a chain's history."""

from __future__ import annotations

from core.contracts.events import Role
from core.db.engine import make_pool
from indexer.sources import Sources
from indexer.store import sums

BOTH = Sources("both", 1, 1, "op-stack", {Role.SETTLER: bytes(20), Role.WALLET: bytes(20)}, None)


async def sum_all(url: str) -> None:
    """Sum everything stored of both sides, and mark every chain as summed."""
    async with make_pool(url, size=1) as pool, pool.connection() as connection:
        await sums.fill(connection, BOTH)
        await connection.execute("UPDATE chain_cursor SET summed = true")

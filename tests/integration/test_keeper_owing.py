"""How much history the keeper reads: only what is still due."""

from __future__ import annotations

import pytest

from core.db.schema.index_stock import DUSTY, OWING
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import check_counts, check_owing, following
from tests.support.index_world import Crowd


async def test_only_markets_with_unpaid_positions_are_read(database_url: str) -> None:
    crowd, chain = Crowd("owing"), SimChain()
    owed: list[int] = []
    async with following(database_url, SimNode(chain), world_sources(), afresh=True) as (follower, pool):
        for _ in range(20):
            for _ in range(20):
                chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randrange(4))])
            await follower.catch_up()
            async with pool.connection() as connection:
                await check_counts(connection)
                owed.append(len(await check_owing(connection)))
    assert max(owed) > 0, "else nothing was shown"


@pytest.mark.parametrize(("condition", "index"), [(OWING, "ix_stock_market_owing"), (DUSTY, "ix_stock_market_dusty")])
async def test_they_are_found_by_a_partial_index(database_url: str, condition: str, index: str) -> None:
    async with following(database_url, SimNode(SimChain()), world_sources()) as (_, pool), pool.connection() as held:
        await held.execute("SET enable_seqscan = off")
        plan = await held.execute(f"EXPLAIN SELECT market_id FROM stock_market WHERE {condition}".encode())
        assert index in str(await plan.fetchall())

"""Pages of history written in one transaction leave the same rows as single ones: a page is folded on what the pages
before it changed, before that is stored."""

from __future__ import annotations

import pytest

from core.db.engine import ConnectionPool
from indexer.fetch import Fetcher
from indexer.fold.rows import Page
from indexer.store.cursor import open_cursor
from indexer.store.steps import append
from indexer.store.sums import sum_all
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import Tables, check_counts, contents, differences, following, wipe
from tests.support.index_world import Crowd

BLOCKS = 120


async def _written(pool: ConnectionPool, pages: list[Page], at_once: int, *, summed: bool) -> Tables:
    sources = world_sources()
    async with pool.connection() as connection:
        await wipe(connection)
    async with pool.connection() as connection:
        cursor = await open_cursor(connection, sources)
        if summed:
            cursor = await sum_all(connection, sources, cursor)
        for start in range(0, len(pages), at_once):
            cursor = await append(connection, sources, cursor, pages[start : start + at_once])
        if not summed:
            await sum_all(connection, sources, cursor)
        await check_counts(connection)
        return await contents(connection)


@pytest.mark.parametrize("summed", [False, True])
async def test_pages_written_together_leave_what_single_ones_do(database_url: str, summed: bool) -> None:
    chain, crowd = SimChain(), Crowd("batches")
    for _ in range(BLOCKS):
        chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randint(1, 5))])
    sources = world_sources()
    fetcher, pages, first = Fetcher(SimNode(chain), sources), [], sources.start_block
    while first <= chain.head.header.number:
        last = min(chain.head.header.number, first + crowd.rng.randint(0, 4))
        pages.append(await fetcher.fetch_history(first, last))
        first = last + 1
    async with following(database_url, SimNode(chain), sources) as (_, pool):
        single = await _written(pool, pages, 1, summed=summed)
        for at_once in (2, 4, len(pages)):
            together = await _written(pool, pages, at_once, summed=summed)
            assert not differences(together, single), at_once
    assert len(single["stock_position"]) > 0
    assert len(single["agent_stake"]) > 0

"""What the index writes down of a chain that stands still: little, and often enough to tell that somebody looks."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from core.db.engine import Pool
from indexer.chain import NOTED_AGAIN_SECONDS
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import following, wipe
from tests.support.index_world import Crowd


async def _written(pool: Pool) -> tuple[object, ...]:
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT xmin::text, head_seen_at, state FROM chain_cursor")
        row = await cursor.fetchone()
    assert row is not None
    return tuple(row)


async def test_a_head_that_is_asked_for_often_is_written_once_a_second(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.monotonic()]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, perf_counter=time.perf_counter)
    monkeypatch.setattr("indexer.chain.time", clock)
    chain, crowd = SimChain(), Crowd("noted")
    chain.mine([crowd.tx("list", b"m" * 32, 10_000, 2, "{}")])
    async with following(database_url, SimNode(chain), world_sources()) as (follower, pool):
        async with pool.connection() as connection:
            await wipe(connection)
        await follower.open()
        await follower.catch_up()
        before = await _written(pool)
        for _ in range(5):
            await follower.catch_up()
        assert await _written(pool) == before

        now[0] += NOTED_AGAIN_SECONDS + 0.1
        await follower.catch_up()
        (_, seen_at, state), (_, seen_before, _) = await _written(pool), before
        assert state == "tail"
        assert seen_at > seen_before  # type: ignore[operator]

        # Who led before may have written meanwhile.
        async with pool.connection() as connection:
            await connection.execute("UPDATE chain_cursor SET state = 'halted', problem = 'of somebody who is slow'")
        now[0] += NOTED_AGAIN_SECONDS + 0.1
        await follower.catch_up()
        assert (await _written(pool))[2] == "tail"

        chain.mine([])
        await follower.catch_up()
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT head_number - number FROM chain_cursor")
            assert await cursor.fetchone() == (0,)

"""Random reorganizations leave every row as a fresh index of the surviving chain would have it.

40 by default, 1,000 with VPM_TEST_LONG=1; VPM_TEST_SEED chooses others. Depth 1 to 64; the competing blocks hold some
of the removed transactions in another order, and new ones.
"""

from __future__ import annotations

import os

import pytest

from indexer.store import steps
from tests.conftest import TestPostgres
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import (
    check_counts,
    check_owing,
    check_stock_against,
    contents,
    differences,
    following,
    fresh_index,
)
from tests.support.index_world import Crowd

LONG = os.environ.get("VPM_TEST_LONG") == "1"
REORGS = 1_000 if LONG else 40
PER_CHAIN = 20
SEED = os.environ.get("VPM_TEST_SEED", "reorg")
FINALITY = 64


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold what a reorganization touches in many batches, like a market with many bets."""
    monkeypatch.setattr(steps, "REFOLD_BATCH", 20)


@pytest.mark.timeout(1_800 if LONG else 600)
@pytest.mark.thorough
async def test_random_reorganizations_leave_what_a_fresh_index_has(postgres: TestPostgres, database_url: str) -> None:
    fresh_url = postgres.create()
    print(f"{REORGS} reorganizations of seed {SEED!r}")
    done = 0
    try:
        while done < REORGS:
            await _one_chain(database_url, fresh_url, done)
            done += PER_CHAIN
    finally:
        postgres.drop(fresh_url)


async def _one_chain(url: str, fresh_url: str, number: int) -> None:
    crowd = Crowd((SEED, number))
    rng = crowd.rng
    chain = SimChain(l1_every=rng.choice((1, 1, 3)))
    node, sources = SimNode(chain), world_sources("op-stack" if chain.l1_every == 1 else "arbitrum-orbit")
    for _ in range(rng.randint(0, 150)):
        _mine(chain, crowd)
    async with following(url, node, sources, finality_blocks=FINALITY, afresh=True) as (follower, pool):
        for step in range(PER_CHAIN):
            for _ in range(rng.randint(0, 3)):
                _mine(chain, crowd)
            if rng.random() < 0.8:
                await follower.catch_up()  # else blocks come and go between two looks
            depth = rng.choice((1, 2, rng.randint(1, FINALITY)))
            depth = min(depth, len(chain.blocks) - 1)
            indexed = follower.cursor.number if follower.cursor else 0
            depth = min(depth, FINALITY - (len(chain.blocks) - 1 - indexed)) if depth else 0
            if depth > 0:
                back = chain.drop(depth)
                rng.shuffle(back)
                back = [tx for tx in back if rng.random() < 0.7]
                length = depth + rng.randint(0, 2)
                for at in range(length):
                    share = back[at * len(back) // length : (at + 1) * len(back) // length]
                    chain.mine([*share, *(crowd.next(chain.head.world) for _ in range(rng.randrange(2)))])
            await follower.catch_up()
            async with pool.connection() as connection:
                ours = await contents(connection)
                await check_stock_against(connection, chain.head.world)
                await check_counts(connection)
                await check_owing(connection)
            theirs = await fresh_index(fresh_url, node, sources, finality_blocks=FINALITY)
            different = differences(ours, theirs)
            assert not different, (SEED, number, step)


def _mine(chain: SimChain, crowd: Crowd) -> None:
    chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randrange(4))])


async def test_a_removed_block_is_recorded_and_counted(database_url: str) -> None:
    crowd, chain = Crowd("kept"), SimChain()
    node, sources = SimNode(chain), world_sources()
    for _ in range(20):
        _mine(chain, crowd)
    async with following(database_url, node, sources, afresh=True) as (follower, pool):
        old_hash = chain.blocks[-1].header.hash
        async with pool.connection() as connection:
            logs = await connection.fetch_value("SELECT count(*) FROM chain_log WHERE block_number > 15")
        chain.drop(5)
        for _ in range(6):
            _mine(chain, crowd)
        await follower.catch_up()
        reorg = "SELECT from_number, from_hash, ancestor_number, removed_logs FROM chain_reorg ORDER BY id DESC"
        async with pool.connection() as connection:
            assert await connection.fetch_one(reorg) == (20, bytes.fromhex(old_hash[2:]), 15, logs)
        assert logs > 0

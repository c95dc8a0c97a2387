"""Readings of a real pool feed in the index: every row equals the contract's, and a missing one is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.contracts.statuses import MarketKind
from core.db.engine import ConnectionPool
from core.feeds.grid import grid_time
from indexer.audit.run import audit
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources, sources_of
from tests.support.agent_chain import AgentChain
from tests.support.audit_pages import compare
from tests.support.genesis import Genesis, chain
from tests.support.index_tables import contents, differences, following
from tests.support.pool_chain import STEP, PoolChain, with_pool_feed

pytestmark = pytest.mark.timeout(600)

A_READING = "(SELECT round_id FROM oracle_measure ORDER BY round_id OFFSET 1 LIMIT 1)"
TAMPERING = (
    f"UPDATE oracle_round SET answer = answer + 1 WHERE round_id = {A_READING}",
    f"UPDATE oracle_round SET updated_at = updated_at + 60 WHERE round_id = {A_READING}",
    f"DELETE FROM oracle_round WHERE round_id = {A_READING}",
    f"UPDATE oracle_measure SET quality = 2 WHERE round_id = {A_READING}",
    f"UPDATE oracle_measure SET liquidity[1] = liquidity[1] + 1 WHERE round_id = {A_READING}",
    f"UPDATE oracle_measure SET end_cumulatives[2] = 0 WHERE round_id = {A_READING}",
    f"DELETE FROM oracle_measure WHERE round_id = {A_READING}",
)
LOST_WITH_ITS_LOGS = (
    # As if the node had never returned them: only the contract has them.
    "WITH gone AS (SELECT r.chain_id, r.block_number FROM oracle_round r WHERE r.round_id = {reading}),"
    " logs AS (DELETE FROM chain_log l USING gone g WHERE l.chain_id = g.chain_id"
    " AND l.block_number = g.block_number RETURNING 1),"
    " measures AS (DELETE FROM oracle_measure m USING gone g WHERE m.chain_id = g.chain_id"
    " AND m.block_number = g.block_number RETURNING 1)"
    " DELETE FROM oracle_round r USING gone g WHERE r.chain_id = g.chain_id AND r.block_number = g.block_number"
)
NEWEST = "(SELECT max(round_id) FROM oracle_measure)"


@pytest.fixture(scope="module")
def played(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolChain]:
    folder: Path = tmp_path_factory.mktemp("pool-feed-index")
    with chain(local_genesis, "base", folder / "anvil.log") as running:
        yield with_pool_feed(AgentChain.on(running.url, running.deployment), folder)


async def audited(pool: ConnectionPool, rpc: ChainProvider, sources: Sources) -> list[dict[str, str]]:
    found = (await audit(pool, ChainClient(rpc), sources)).comparison
    return found.detail


async def test_readings_audit_clean_are_rebuilt_and_undone_and_tampering_is_seen(
    played: PoolChain, database_url: str
) -> None:
    deployment = played.agents.deployment
    played.list(MarketKind.DIRECTION)
    played.trade(300)
    now = grid_time(played.now - 1, STEP)
    played.record(now - 120, now)  # with a hole between them, and out of order afterwards
    played.record(now - 180)
    sources = sources_of(deployment, "base")
    assert sources.steps == {bytes.fromhex(played.feed.address[2:]): STEP}
    async with (
        ChainProvider((played.agents.url,), chain_id=sources.chain_id) as rpc,
        following(database_url, RpcNode(rpc), sources, afresh=True) as (follower, pool),
    ):
        assert await audited(pool, rpc, sources) == []
        async with pool.connection() as connection:
            rows = await (
                await connection.execute(
                    b"SELECT r.updated_at, r.answer, m.quality, m.liquidity, m.quiet, m.log_index - r.log_index"
                    b" FROM oracle_round r JOIN oracle_measure m USING (chain_id, feed, round_id)"
                    b" WHERE r.updated_at >= %s ORDER BY r.updated_at",
                    (now - 180,),
                )
            ).fetchall()
            steps = await (await connection.execute(b"SELECT step FROM agent_feed ORDER BY step DESC")).fetchall()
        assert [row[0] for row in rows] == [now - 180, now - 120, now]
        assert [int(row[1]) for row in rows] == [played.reading(at) for at in (now - 180, now - 120, now)]
        assert all(row[2] == 1 and len(row[3]) == len(row[4]) == 2 and row[5] == 1 for row in rows)
        assert steps[0] == (STEP,)
        await _tampered(pool, rpc, sources)

        # A reading removed from the chain is removed here, and returns with the next recording.
        snapshot = played.agents.ask("evm_snapshot")
        played.trade(60)
        played.record(grid_time(played.now - 1, STEP))
        await follower.catch_up()
        async with pool.connection() as connection:
            before = await contents(connection)
        played.agents.ask("evm_revert", snapshot)
        played.trade(90)
        played.record(grid_time(played.now - 1, STEP))
        await follower.catch_up()
        assert await audited(pool, rpc, sources) == []
        async with pool.connection() as connection:
            after = await contents(connection)
        assert differences(before, after)
        await rebuild(pool, sources)
        async with pool.connection() as connection:
            assert not differences(after, await contents(connection))


async def _tampered(pool: ConnectionPool, rpc: ChainProvider, sources: Sources) -> None:
    statements = [*TAMPERING, *(LOST_WITH_ITS_LOGS.format(reading=each) for each in (A_READING, NEWEST))]
    async with pool.connection() as connection:
        for statement in statements:
            async with connection.transaction(force_rollback=True):
                changed = await connection.execute(statement.encode())
                assert changed.rowcount >= 1, statement
                found = await compare(connection, ChainClient(rpc), sources)
                assert found.mismatches >= 1, f"not noticed: {statement}"

"""The indexer on real contracts: what it folds from their logs is what their own views say, every number."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.db.engine import ConnectionPool
from indexer.audit import run, views
from indexer.audit.rows import Comparison
from indexer.chain import ChainFollower
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources, sources_of
from indexer.store import steps
from tests.support.audit_pages import audit_in_pages_of, compare
from tests.support.genesis import Genesis, RunningChain, chain, genesis
from tests.support.index_activity import AgentPlayers, Players, StockPlayers
from tests.support.index_tables import contents, differences, following

STEPS = 150 if os.environ.get("VPM_TEST_LONG") == "1" else 75


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a rebuild takes many batches in its one transaction, and an audit many pages, as of long histories."""
    monkeypatch.setattr(steps, "REFOLD_BATCH", 50)
    audit_in_pages_of(20, monkeypatch)


@pytest.fixture(scope="module")
def known() -> Genesis:
    return genesis()


@asynccontextmanager
async def indexed(
    url: str, running: RunningChain
) -> AsyncIterator[tuple[ChainProvider, ChainFollower, ConnectionPool, Sources]]:
    sources = sources_of(running.deployment, running.name)
    async with (
        ChainProvider((running.url,), chain_id=sources.chain_id) as rpc,
        following(url, RpcNode(rpc), sources, afresh=True) as (follower, pool),
    ):
        yield rpc, follower, pool, sources


async def check(pool: ConnectionPool, rpc: ChainProvider, sources: Sources) -> Comparison:
    found = (await run.audit(pool, ChainClient(rpc), sources)).comparison
    assert found.mismatches == 0, found.detail
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("side", ["stock", "base"])
async def test_a_busy_history_audits_clean_and_rebuilds_the_same(
    side: str, database_url: str, known: Genesis, tmp_path: Path
) -> None:
    with chain(known, side, tmp_path / "anvil.log", mine_on_demand=True) as running:
        await _busy_history(side, database_url, running)


async def _busy_history(side: str, database_url: str, running: RunningChain) -> None:
    async with indexed(database_url, running) as (rpc, follower, pool, sources):
        players: Players
        if side == "stock":
            players = StockPlayers(rpc, running.deployment, "busy")
        else:
            players = AgentPlayers(rpc, running.deployment, "busy")
        await players.prepare()
        for step in range(STEPS):
            await players.step()
            if step % 7 == 0:
                await follower.catch_up()
            if step % 50 == 49:
                await follower.catch_up()
                await check(pool, rpc, sources)
        await players.everything_once()
        if isinstance(players, AgentPlayers):
            await players.condemn()
        await follower.catch_up()
        found = await check(pool, rpc, sources)
        print(f"{found.compared} numbers compared, {await players.reverted()} of {len(players.sent)} reverted")
        assert found.compared > 1_000
        async with pool.connection() as connection:
            before = await contents(connection)
        done = await rebuild(pool, sources)
        async with pool.connection() as connection:
            assert done.logs == len(before["chain_log"])
            assert not differences(await contents(connection), before)
        await check(pool, rpc, sources)
        client = ChainClient(rpc)
        for statement in ALTERED[side]:
            async with pool.connection() as connection, connection.transaction(force_rollback=True):
                assert (await connection.execute(statement.encode())).rowcount == 1, statement
                found = await compare(connection, client, sources, views.stages())
                assert found.mismatches > 0, statement


@pytest.mark.thorough
async def test_a_block_undone_during_the_audit_is_no_mismatch(
    database_url: str, known: Genesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is compared again, at the new block once it is indexed."""
    monkeypatch.setattr(run, "PAGE_TRIES", 10_000)
    monkeypatch.setattr(run, "RETRY_SECONDS", 0.01)
    audit_in_pages_of(2, monkeypatch)
    reached = asyncio.Event()

    def progress(stage: str, _so_far: Comparison) -> None:
        if stage == "agent stakes":
            reached.set()

    with chain(known, "base", tmp_path / "anvil.log", mine_on_demand=True) as running:
        async with indexed(database_url, running) as (rpc, follower, pool, sources):
            players = AgentPlayers(rpc, running.deployment, "pages")
            await players.prepare()
            for _ in range(40):
                await players.step()
            await follower.catch_up()
            auditing = asyncio.create_task(run.audit(pool, ChainClient(rpc), sources, progress=progress))
            await reached.wait()
            await rpc.call("anvil_reorg", [2, []], object)
            await follower.catch_up()
            done = await auditing
    assert done.comparison.mismatches == 0, done.comparison.detail


# What the contracts' views return; tests/integration/test_audit_columns.py alters every column of every table.
ALTERED = {
    "stock": (
        "UPDATE stock_market SET acc_up = acc_up + 1 WHERE market_id = 1",
        "UPDATE stock_market SET final_time = final_time + 1 WHERE market_id = 1",
        "UPDATE stock_position SET owner = decode(repeat('ab', 20), 'hex')"
        " WHERE position_id = (SELECT max(position_id) FROM stock_position)",
        "UPDATE stock_position SET offered = offered + 1"
        " WHERE position_id = (SELECT max(position_id) FROM stock_position)",
        "UPDATE stock_feed SET allowed = NOT allowed WHERE feed = (SELECT feed FROM stock_feed LIMIT 1)",
        "DELETE FROM stock_market WHERE market_id = (SELECT max(market_id) FROM stock_market)",
    ),
    "base": (
        "UPDATE agent_outcome SET shares = shares + 1 WHERE (market_id, outcome) ="
        " (SELECT market_id, outcome FROM agent_outcome LIMIT 1)",
        "UPDATE agent_stake SET wallet = decode(repeat('ab', 20), 'hex') WHERE stake_id ="
        " (SELECT max(stake_id) FROM agent_stake)",
        "UPDATE agent_stake SET amount = amount + 1 WHERE stake_id = (SELECT max(stake_id) FROM agent_stake)",
        "UPDATE agent_market SET settles_after = settles_after + 1 WHERE index = 1",
        "UPDATE agent_role SET allowed = NOT allowed WHERE (role, account) ="
        " (SELECT role, account FROM agent_role LIMIT 1)",
        "DELETE FROM agent_market WHERE index = 1",
    ),
}

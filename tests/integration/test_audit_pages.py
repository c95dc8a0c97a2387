"""An audit in pages, each at the block that the index has reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.db.engine import ConnectionPool, make_pool
from indexer.audit import run
from indexer.audit.rows import Comparison
from indexer.audit.run import AuditReport, audit
from indexer.chain import ChainFollower
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources, sources_of
from tests.support.audit_pages import audit_in_pages_of
from tests.support.genesis import Genesis, RunningChain, chain, genesis
from tests.support.index_activity import AgentPlayers

STEPS = 40


@dataclass(frozen=True)
class History:
    url: str
    known: Genesis
    running: RunningChain
    rpc: ChainProvider
    pool: ConnectionPool
    sources: Sources
    follower: ChainFollower

    async def audit(self, **how: Any) -> AuditReport:
        return await audit(self.pool, ChainClient(self.rpc), self.sources, **how)


@pytest.fixture(scope="module")
def known() -> Genesis:
    return genesis()


@pytest.fixture(scope="module")
def played(known: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChain]:
    log = tmp_path_factory.mktemp("audit") / "anvil.log"
    with chain(known, "base", log, mine_on_demand=True) as running:
        asyncio.run(_play(running, database_url))
        yield running


async def _play(running: RunningChain, url: str) -> None:
    sources = sources_of(running.deployment, running.name)
    async with ChainProvider((running.url,), chain_id=sources.chain_id) as rpc, make_pool(url, size=1) as pool:
        follower = ChainFollower(RpcNode(rpc), sources, pool, finality_blocks=64)
        await follower.open()
        players = AgentPlayers(rpc, running.deployment, "pages")
        await players.prepare()
        for _ in range(STEPS):
            await players.step()
        await follower.catch_up()


@pytest.fixture
async def history(known: Genesis, played: RunningChain, database_url: str) -> AsyncIterator[History]:
    sources = sources_of(played.deployment, played.name)
    async with (
        ChainProvider((played.url,), chain_id=sources.chain_id) as rpc,
        make_pool(database_url, size=3) as pool,
    ):
        await rebuild(pool, sources)
        async with pool.connection() as connection:
            await connection.execute("TRUNCATE chain_audit")
        follower = ChainFollower(RpcNode(rpc), sources, pool, finality_blocks=64)
        await follower.open()
        yield History(database_url, known, played, rpc, pool, sources, follower)


@pytest.mark.thorough
async def test_a_block_undone_during_the_audit_is_no_mismatch(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is compared again, at the new block once it is indexed."""
    monkeypatch.setattr(run, "PAGE_TRIES", 10_000)
    monkeypatch.setattr(run, "RETRY_SECONDS", 0.01)
    audit_in_pages_of(2, monkeypatch)
    reached = asyncio.Event()

    def progress(stage: str, _so_far: Comparison) -> None:
        if stage == "agent stakes":
            reached.set()

    auditing = asyncio.create_task(history.audit(progress=progress))
    await reached.wait()
    await history.rpc.call("anvil_reorg", [2, []], object)
    await history.follower.catch_up()
    done = await auditing
    assert done.comparison.mismatches == 0, done.comparison.detail

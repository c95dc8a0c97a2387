"""A former leader clears its gauges: stale values would raise alarms until it restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import REGISTRY

from core.config import KeeperSettings, load
from core.db.engine import make_engine, make_pool
from indexer import metrics as index_metrics
from indexer.service import ChainService
from keeper import metrics as keeper_metrics
from keeper.run import Keeper
from keeper.service import KeeperService
from tests.support.cup_rig import settings_for
from tests.support.genesis import Genesis, chain
from tests.waiting import PATIENCE, running, until

SERVING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen %keeper%'"


@pytest.mark.thorough
async def test_a_former_leader_reports_no_due_work(fresh_database_url: str) -> None:
    settings = settings_for(fresh_database_url)
    engine = make_engine(fresh_database_url)
    due = {"job": "resolve", "what": "markets"}
    async with make_pool(fresh_database_url, size=2, autocommit=True) as pool, aiohttp.ClientSession() as http:
        service = KeeperService(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {}), fresh_database_url)
        async with running(service.run()):
            async with asyncio.timeout(PATIENCE), pool.connection() as connection:
                while not await (await connection.execute(SERVING)).fetchone():
                    await asyncio.sleep(0.1)
            keeper_metrics.DUE.labels(**due).set(3)
            keeper_metrics.FEED_BEHIND.labels("BNKR/market_cap").set(400)
            assert REGISTRY.get_sample_value("vpm_keeper_due", due) == 3
        assert REGISTRY.get_sample_value("vpm_keeper_due", due) is None
        assert REGISTRY.get_sample_value("vpm_feed_behind_seconds", {"feed": "BNKR/market_cap"}) is None
    await engine.dispose()


async def test_a_former_leader_reports_no_chain_state(
    local_genesis: Genesis, fresh_database_url: str, tmp_path: Path
) -> None:
    index_metrics.forget_state("stock")  # what other tests of this process left
    states = ("vpm_index_halted", "vpm_index_lag_seconds", "vpm_index_lag_blocks")
    label = {"chain": "stock"}
    with chain(local_genesis, "stock", tmp_path / "stock.log") as stock:
        settings = settings_for(
            fresh_database_url, VPM_STOCK_RPC_URLS=stock.url, VPM_DEPLOYMENTS_DIR=str(local_genesis.deployments)
        )
        async with make_pool(fresh_database_url, size=4) as pool:
            service = ChainService(settings.chain("stock"), settings, pool)
            async with running(service.run()):
                await until(
                    lambda: REGISTRY.get_sample_value("vpm_index_lag_seconds", label) is not None, "the lag", 30
                )
                index_metrics.HALTED.labels("stock").set(1)
            assert [REGISTRY.get_sample_value(name, label) for name in states] == [None] * 3

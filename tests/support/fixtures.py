"""pytest fixtures over the local genesis; see tests/support/genesis.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer
from tests.support.genesis import Genesis, RunningChain, chain, genesis
from tests.support.service import Door, Service
from tests.support.stock_chain import StockChain
from tests.support.stock_service import StockService, stock_service


@pytest.fixture(scope="module")
def local_genesis() -> Genesis:
    return genesis()


@pytest.fixture(scope="module")
def stock_chain(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChain]:
    log: Path = tmp_path_factory.mktemp("stock") / "anvil.log"
    with chain(local_genesis, "stock", log) as running:
        yield running


@pytest.fixture(scope="module")
def base_chain(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningChain]:
    log: Path = tmp_path_factory.mktemp("base") / "anvil.log"
    with chain(local_genesis, "base", log) as running:
        yield running


@pytest.fixture(scope="module")
def base_service(
    base_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    with agent_service(chain, database_url, local_genesis.deployments, tmp_path_factory.mktemp("agents")) as service:
        yield service


@pytest.fixture(scope="module")
def stock_venue(
    stock_chain: RunningChain, local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    with stock_service(chain, database_url, local_genesis.deployments, tmp_path_factory.mktemp("stock")) as service:
        yield service


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    base_service.start("indexer", "relayer", "api")
    return base_service


@pytest.fixture
async def door(service: Service[Any]) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession() as session:
        yield Door(session, service.url)


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        made = Buyer(session, service)
        for newest in list(service.chain.ids)[-1:]:
            await made.shows(newest)
        yield made


@pytest.fixture(scope="module")
def quick_service(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentService]:
    """Run the agent surface with one market, `ours`, one-second blocks, and finality after two blocks."""
    folder: Path = tmp_path_factory.mktemp("quick")
    soon = ("--slots-in-an-epoch", "1")
    with chain(local_genesis, "base", folder / "anvil.log", block_seconds=1, extra=soon) as base:
        played = AgentChain.on(base.url, base.deployment)
        played.list("ours")
        env = {"VPM_ALLOW_PRIVATE_WEBHOOKS": "1", "VPM_RELAYER_LEASE_SECONDS": "2"}
        with agent_service(played, database_url, local_genesis.deployments, folder, **env) as running:
            running.start("indexer", "relayer", "api")
            yield running


@pytest.fixture
async def quick_market(quick_service: AgentService) -> str:
    async with aiohttp.ClientSession() as session:
        await Buyer(session, quick_service).shows("ours")
    return quick_service.chain.ids["ours"]

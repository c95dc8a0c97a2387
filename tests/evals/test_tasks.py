"""Each task ends as it must, done by the scripted agent, or by the program of VPM_EVAL_AGENT (README.md)."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
import pytest

from scripts._stack import wallets
from tests.evals.scenes import TASKS, Scene, World
from tests.support import nursery
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.genesis import Genesis, RunningChain
from tests.support.mcp_clients import without_proxies
from tests.support.service import followed
from tests.support.stock_chain import StockChain

SCRIPTED = (sys.executable, "-m", "tests.evals.scripted")
AGENT = tuple(shlex.split(os.environ.get("VPM_EVAL_AGENT", ""))) or SCRIPTED
SECONDS = 60 if AGENT == SCRIPTED else 600

pytestmark = pytest.mark.timeout(SECONDS + 120)


@dataclass(frozen=True)
class Service:
    """The running service, and the two chains that it is on."""

    running: AgentService
    stock: StockChain


@pytest.fixture(scope="module")
def service(
    base_chain: RunningChain,
    stock_chain: RunningChain,
    local_genesis: Genesis,
    database_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    base = AgentChain.on(base_chain.url, base_chain.deployment)
    stock = StockChain.on(stock_chain.url, stock_chain.deployment)
    first, second = wallets.RELAY_LANES[:2]
    keys = ",".join(f"{name}:relay={one.private_key}" for name, one in (("base", first), ("stock", second)))
    env = {**followed("STOCK", stock.url), "VPM_RELAYER_KEYS": keys}
    folder = tmp_path_factory.mktemp("evals")
    with agent_service(base, database_url, local_genesis.deployments, folder, **env) as running:
        running.start("indexer", "relayer", "api")
        yield Service(running, stock)


@pytest.fixture
async def world(service: Service) -> AsyncIterator[World]:
    async with aiohttp.ClientSession() as session:
        yield World(service.running, service.stock, session)


async def answer_of(program: Sequence[str], world: World, scene: Scene) -> str:
    """The last line that an agent says, having been told its task."""
    told = {
        "task": scene.task,
        "prompt": scene.prompt,
        "given": dict(scene.given),
        "server": TASKS[scene.task]["server"],
        "servers": world.servers,
        "wallet": {"address": scene.wallet.address, "privateKey": scene.wallet.private_key},
    }
    done = await asyncio.to_thread(
        nursery.run, program, without_proxies(), timeout=SECONDS, given=json.dumps(told).encode()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[-1] if lines else ""


@pytest.mark.thorough
@pytest.mark.parametrize("task", TASKS)
async def test_a_task_ends_as_it_must(world: World, task: str) -> None:
    scene = await world.scene(task)
    if task != "once":  # what it asks for is there already: it fails for a second bet, as the next test shows
        assert await world.faults(scene, "done", seconds=0) != [], "doing nothing would pass"
    answer = await answer_of(AGENT, world, scene)
    print(f"{task}: {answer}")
    assert await world.faults(scene, answer) == []

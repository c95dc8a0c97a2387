"""The local stack's pools: genuine ones with liquidity, a history of two hours, and a trader who moves their prices."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from keeper.sources import ONE
from scripts import _demo as demo
from scripts._deploy import build
from scripts._stack import agent_pools, chain_setup
from scripts._stack.agent_pools import AgentPools, Walk
from scripts._stack.chain_setup import LocalNode
from tests.conftest import StartAnvil
from tests.waiting import PATIENCE

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
PAST = 7_200


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> tuple[LocalNode, AgentPools]:
    """Return a chain that began two hours ago, and its pools with swaps up to now."""
    asyncio.run(build.compile_all())
    node = LocalNode(module_anvil(8453, timestamp=int(time.time()) - PAST).url)
    chain_setup.place_base(node, USDC)
    agent_pools.place_weth(node)
    pools = agent_pools.build(node, USDC)
    agent_pools.make_history(node, pools, None, 60)
    return node, pools


def test_a_chain_has_the_time_of_day_after_its_past(chain: tuple[LocalNode, AgentPools]) -> None:
    node, _ = chain
    before = int(time.time())
    node.ask("evm_mine")
    head = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    assert before - 1 <= head <= time.time() + 1


def test_the_demo_trades_in_the_pools_that_were_saved(
    chain: tuple[LocalNode, AgentPools], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, pools = chain
    pools.save(tmp_path / "pools.json")
    assert AgentPools.load(tmp_path / "pools.json") == pools
    walk = Walk(agent_pools.trader(node), pools)
    before = [walk.value(pool) for pool in pools.all]
    monkeypatch.setattr(demo, "SWAP_PAUSE_SECONDS", 0.01)

    async def for_a_while() -> None:
        async with asyncio.timeout(PATIENCE):
            trading = asyncio.create_task(demo.move_prices(node.url, tmp_path / "pools.json"))
            while any(walk.value(pool) == was for pool, was in zip(pools.all, before, strict=True)):
                await asyncio.sleep(0.05)
            trading.cancel()

    asyncio.run(for_a_while())


def test_values_and_prices_are_each_others_inverse(chain: tuple[LocalNode, AgentPools]) -> None:
    _, pools = chain
    ether = 3_123 * ONE
    for pool in pools.all:
        quote = ONE if pool is pools.weth else ether
        for value in (12_345 * ONE, 987_654_321 * ONE):
            assert pool.value(pool.sqrt_price(value, quote), quote) == pytest.approx(value, rel=1e-9)

"""The local stack's pools: genuine ones with liquidity, a past of two hours, and a trader who moves them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from core.chain import Contract
from keeper.sources.sample import ONE
from keeper.sources.simulated import first_value
from scripts._demo import pools as demo
from scripts._stack import agent_pools, chain_setup, contracts
from scripts._stack.agent_pools import CARDINALITY, ETH_DOLLARS, TOKENS, AgentPools, Walk
from scripts._stack.chain_setup import LocalNode
from scripts._stack.uniswap import pool_abi
from tests.conftest import StartAnvil
from tests.waiting import PATIENCE

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
FIRST_OBSERVATION = 8  # the slot of the pool's first
PAST = 7_200


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> tuple[LocalNode, AgentPools, int]:
    """A chain that began two hours ago, with pools and swaps up to now; and how many blocks of swaps there were."""
    asyncio.run(contracts.compile_all())
    now = int(time.time())
    node = LocalNode(module_anvil(8453, timestamp=now - PAST).url)
    chain_setup.place_base(node, USDC)
    agent_pools.place_weth(node)
    pools = agent_pools.build(node, USDC)
    before = int(node.ask("eth_blockNumber"), 16)
    agent_pools.lay_past(node, pools, now, 60)
    return node, pools, int(node.ask("eth_blockNumber"), 16) - before


@pytest.mark.thorough
def test_two_hours_of_swaps_are_in_every_pools_history(chain: tuple[LocalNode, AgentPools, int]) -> None:
    node, pools, blocks = chain
    who = agent_pools.trader(node)
    assert blocks == pytest.approx(PAST / 60, abs=2)
    head = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    assert abs(head - time.time()) < 120
    for pool in pools.all:
        contract = Contract(pool.address, pool_abi())
        _, tick, index, cardinality, following, _, _ = who.read(contract.call("slot0"))
        assert following == cardinality == CARDINALITY
        # Room is not written slot by slot: anvil goes through every slot for each block.
        last = node.ask("eth_getStorageAt", pool.address, hex(FIRST_OBSERVATION + CARDINALITY - 1), "latest")
        assert int(last, 16) == 0
        assert index > 0.75 * blocks  # few steps are so small that they cross no tick
        ago = [PAST - 300, 3_600, 600, 0]
        ticks = who.read(contract.call("observe", ago))[0]
        means = [
            (after - before) / (a - b) for before, after, a, b in zip(ticks, ticks[1:], ago, ago[1:], strict=False)
        ]
        assert len(set(means)) == 3  # it moved
        assert all(abs(mean - tick) < 3_000 for mean in means)


@pytest.mark.thorough
def test_the_first_prices_are_those_of_the_other_local_feeds(chain: tuple[LocalNode, AgentPools, int]) -> None:
    node, pools, _ = chain
    walk = Walk(agent_pools.trader(node), pools)
    for token in TOKENS:
        assert walk.value(pools.of(token.key)) == pytest.approx(first_value(token.key), rel=0.25)
    assert walk.value(pools.weth) == pytest.approx(ETH_DOLLARS * ONE, rel=0.05)


@pytest.mark.thorough
def test_the_trader_moves_each_pool_and_a_moment_later_again(chain: tuple[LocalNode, AgentPools, int]) -> None:
    node, pools, _ = chain
    walk = Walk(agent_pools.trader(node), pools)
    now, seen = int(time.time()), []
    for later in (60, 120):
        agent_pools.trade_once(node, walk, now + later)
        seen.append([walk.value(pool) for pool in pools.all])
    assert all(one != other for one, other in zip(*seen, strict=True))
    assert all(abs(other / one - 1) < 0.05 for one, other in zip(*seen, strict=True))


def test_a_chain_goes_on_by_the_clock_after_its_past(chain: tuple[LocalNode, AgentPools, int]) -> None:
    node, _, _ = chain
    node.ask("evm_mine")
    head = int(node.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
    assert abs(head - time.time()) < 120


def test_the_demo_trades_in_the_pools_that_were_saved(
    chain: tuple[LocalNode, AgentPools, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, pools, _ = chain
    pools.save(tmp_path / "pools.json")
    assert AgentPools.load(tmp_path / "pools.json") == pools
    walk = Walk(agent_pools.trader(node), pools)
    before = [walk.value(pool) for pool in pools.all]
    monkeypatch.setattr(demo, "PAUSE_SECONDS", 0.01)

    async def for_a_while() -> None:
        async with asyncio.timeout(PATIENCE):
            trading = asyncio.create_task(demo.play(node.url, tmp_path / "pools.json"))
            while any(walk.value(pool) == was for pool, was in zip(pools.all, before, strict=True)):
                await asyncio.sleep(0.05)
            trading.cancel()

    asyncio.run(for_a_while())


def test_values_and_prices_are_each_others_inverse(chain: tuple[LocalNode, AgentPools, int]) -> None:
    _, pools, _ = chain
    ether = 3_123 * ONE
    for pool in pools.all:
        quote = ONE if pool is pools.weth else ether
        for value in (12_345 * ONE, 987_654_321 * ONE):
            assert pool.value(pool.sqrt_price(value, quote), quote) == pytest.approx(value, rel=1e-9)

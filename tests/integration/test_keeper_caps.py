"""What the keeper lists on a pool feed: what fits under its cap, and nothing while the pools bear too little of it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from core.chain import ChainClient
from core.chain.provider import ChainProvider
from core.contracts.feeds import PoolFeed
from core.feeds.grid import grid_time
from core.feeds.live import live_cap_units
from core.money import USD
from keeper.run import RunReport
from tests.support.agent_chain import AgentChain
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged
from tests.support.pool_chain import KEY, PoolChain, of_the_stack, put_back, take_out

POT_CAP = 7 * USD  # the least there is: local pools bear a few dollars
SWAPS, EVERY_SECONDS, PERCENT = 100, 60, 3
WATCHED = {"VPM_KEEPER_WATCH_CAPS": "1"}


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "base") as running:
        yield running


def played(rig: Rig, genesis: Genesis) -> PoolChain:
    running = rig.chains["base"]
    return of_the_stack(AgentChain.on(running.url, running.deployment), genesis.state.pools)


def wander(chain: PoolChain) -> None:
    """Two hours in which the price moves by more than its pools' fees: without that they bear nothing."""
    pool, dice = chain.pools.get(KEY), random.Random("wandering")
    home = chain.walk.value(pool)
    for _ in range(SWAPS):
        chain.agents.warp_to(chain.now + EVERY_SECONDS)
        value = chain.walk.value(pool)
        up = dice.random() < (0.8 if value < home else 0.2)  # it stays near its liquidity
        swap = chain.walk.swap_to(pool, value * (100 + (PERCENT if up else -PERCENT)) // 100)
        assert swap is not None
        chain.walk.who.send(swap)


async def bear(chain: PoolChain) -> int:
    deployment = chain.agents.deployment
    async with ChainProvider([chain.agents.url], chain_id=None) as rpc:
        return await live_cap_units(
            ChainClient(rpc), deployment.pool_factories, chain.feed, int(deployment.params["feeBps"])
        )


def set_caps(chain: PoolChain, pot_cap: int, feed_cap: int) -> None:
    """The Safe sets the caps of the feed; the newest reading is recorded, as `allow_feed` does."""
    feed, safe = chain.feed, chain.agents.deployment.safe
    assert safe is not None
    read(chain)
    given = (feed.address, True, feed.memory_seconds, feed.max_age_seconds, pot_cap, feed_cap)
    chain.agents.send(chain.agents.contracts.lister.call("setFeed", *given), safe.address)


def read(chain: PoolChain) -> None:
    """Record the newest reading: markets are listed on a fresh one only."""
    chain.record(grid_time(chain.now - 1, chain.feed.step_seconds))


async def listed(rig: Rig, chain: PoolChain, **variables: str) -> tuple[list[str], list[str]]:
    """Return which standing markets on the feed the keeper would list now, and why it leaves others out."""
    read(chain)
    await rig.works()
    report = await rig.run("agent-list", dry_run=True, **variables)
    return _of(chain.feed, report)


def _of(feed: PoolFeed, report: RunReport) -> tuple[list[str], list[str]]:
    assert report.errors == []
    symbol = feed.key.partition("/")[0].lower()
    asked = [each.target for each in report.actions if each.target.startswith(symbol)]
    return asked, [each.reason for each in report.skipped if each.target.lower().startswith(symbol)]


def gauge(name: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"feed": KEY})


async def test_the_keeper_lists_what_fits_under_the_feeds_cap(rig: Rig, local_genesis: Genesis) -> None:
    chain = played(rig, local_genesis)
    rig.start("indexer", "relayer")
    set_caps(chain, 1_000 * USD, 2_000 * USD)
    asked, left_out = await listed(rig, chain)
    full = "the unsettled markets on its feed leave no room under the feed's cap"
    # How many are left out depends on the time: around a boundary, this round's and the next one's markets are.
    assert (len(asked), full in left_out, gauge("vpm_feed_room")) == (2, True, 2)

    chain.list()
    asked, left_out = await listed(rig, chain)
    assert (len(asked), full in left_out, gauge("vpm_feed_room")) == (1, True, 1)

    chain.list(length=400)
    asked, left_out = await listed(rig, chain)
    assert (len(asked), full in left_out, gauge("vpm_feed_room")) == (0, True, 0)

    set_caps(chain, 1_000 * USD, 5_000 * USD)
    asked, left_out = await listed(rig, chain)
    assert (len(asked), full in left_out, gauge("vpm_feed_room")) == (3, True, 3)


async def test_listing_stops_while_the_pools_support_too_little_of_the_cap(
    rig: Rig, local_genesis: Genesis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chain = played(rig, local_genesis)
    await asyncio.to_thread(wander, chain)
    set_caps(chain, POT_CAP, await bear(chain))
    rig.start("indexer", "relayer")

    assert await caps(rig, caplog) == []
    assert gauge("vpm_feed_cap_supported") == pytest.approx(1, abs=0.01)
    asked, _ = await listed(rig, chain, **WATCHED)
    assert asked

    # 45% of the liquidity leaves: the lister itself would list still, and a push costs a third less.
    taken = take_out(chain.pools, KEY, chain.walk.who, 45)
    chain.agents.warp_to(chain.now + 2 * chain.feed.window_seconds)
    (fell,) = await caps(rig, caplog)
    assert f"stopped listing on feed {KEY}: its pools support " in fell
    share = gauge("vpm_feed_cap_supported")
    assert share is not None
    assert 0.5 < share < 0.7
    assert await caps(rig, caplog) == []  # said once
    asked, left_out = await listed(rig, chain, **WATCHED)
    assert asked == []
    assert [each for each in left_out if "its pools support too little of its cap" in each]
    assert "ape run allow_feed" in left_out[0]
    asked, _ = await listed(rig, chain, VPM_KEEPER_WATCH_CAPS="0")
    assert asked, "the contract itself would still take them"

    put_back(chain.pools, KEY, chain.walk.who, taken)
    chain.agents.warp_to(chain.now + 2 * chain.feed.window_seconds)
    (back,) = await caps(rig, caplog)
    assert f"resumed listing on feed {KEY}: its pools support " in back
    asked, _ = await listed(rig, chain, **WATCHED)
    assert asked

    # Or the Safe sets what they bear: there is no other way to change a cap.
    take_out(chain.pools, KEY, chain.walk.who, 45)
    chain.agents.warp_to(chain.now + 2 * chain.feed.window_seconds)
    assert len(await caps(rig, caplog)) == 1
    set_caps(chain, POT_CAP, await bear(chain))
    assert len(await caps(rig, caplog)) == 1
    asked, _ = await listed(rig, chain, **WATCHED)
    assert asked


async def caps(rig: Rig, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    report = await rig.run("agent-caps", **WATCHED)
    assert report.errors == []
    return [each.getMessage() for each in caplog.records if f"listing on feed {KEY}: " in each.getMessage()]

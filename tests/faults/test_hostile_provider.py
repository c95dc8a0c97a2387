"""The whole service behind providers that cannot be relied on, while its daemons are killed every five seconds.

Before each chain stands what a bad provider is: receipts come up to ten seconds late, each call is answered by one of
three nodes up to five blocks apart, every twentieth log is left out, and a nonce is told wrongly once. Fifty wallets
bet on stock markets and pay for agent trades through whichever API process answers. In the end every answer was true,
nothing is lost, nothing is doubled, and the audit, asked of the chain itself, is clean.

Short by default. `VPM_TEST_LONG=1`: 2,000 bets and 500 paid trades. The seed is printed; `VPM_TEST_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from scripts._local.anvil import ask
from scripts._stack.wallets import wallet
from tests.support.fleet import Fleet, FleetSize, fleet
from tests.support.fleet_checks import faults
from tests.support.fleet_load import Load, LoadReport
from tests.support.genesis import Genesis
from tests.support.hazy_node import HazyNode

pytestmark = pytest.mark.thorough

LONG = os.environ.get("VPM_TEST_LONG") == "1"
BETS, TRADES = (2_000, 500) if LONG else (60, 20)
BETS_PER_SECOND = 5.0
KILL_SECONDS = 5.0
WALLETS = 50
AT_ONCE = 120
VIEWS = (0, 2, 5)  # so many blocks behind are the nodes behind the provider
SIZE = FleetSize(api=2, indexer=2, keeper=2, relayer=2)
QUICK = {
    "VPM_RELAYER_LEASE_SECONDS": "3",
    "VPM_RELAYER_RESEND_AFTER_SECONDS": "2",
    # Thousands of bets in minutes are meant here; the stop-loss would end the test, as it should elsewhere.
    "VPM_RELAYER_GAS_PER_HOUR_ETHER": "50",
    "VPM_STOP_GRACE_SECONDS": "3",
}


def unreliable(target: str, seed: str) -> HazyNode:
    node = HazyNode(target, seed=hash_of(seed, target))
    node.receipt_delay, node.views, node.logs_lost = (0.0, 10.0), VIEWS, 1 / 20
    return node


def hash_of(*parts: str) -> int:
    return random.Random(" ".join(parts)).randrange(2**32)


@pytest.mark.timeout(3_600 if LONG else 900)
async def test_every_answer_is_true_and_nothing_is_lost_or_doubled(local_genesis: Genesis, tmp_path: Path) -> None:
    seed = os.environ.get("VPM_TEST_SEED", str(random.randrange(2**32)))
    print(f"seed {seed}")
    nodes: list[HazyNode] = []

    def before(target: str) -> HazyNode:
        nodes.append(unreliable(target, f"{seed} {len(nodes)}"))
        return nodes[-1]

    async with fleet(
        tmp_path / "fleet", local_genesis.state, SIZE, patience=4.0, proxy=before, common=QUICK
    ) as running:
        load = Load(running, pace=0.0, bettors=[wallet(f"hostile provider {number}") for number in range(WALLETS)])
        async with load:
            await seen_by_all(running)  # the bettors' money: who sees none yet refuses them, and rightly
            began = time.monotonic()
            killing = asyncio.create_task(kill_every_few_seconds(running, random.Random(seed)))
            lying = asyncio.create_task(lie_once(nodes))
            await asyncio.gather(
                place(load, "stock", load.stock, BETS, BETS_PER_SECOND),
                place(load, "agent", load.agent, TRADES, BETS_PER_SECOND * TRADES / BETS),
            )
            took = time.monotonic() - began
            killing.cancel()
            lying.cancel()
            kills = (await asyncio.gather(killing, return_exceptions=True))[0]
            assert isinstance(kills, Counter), kills
            told = Counter((one.surface, one.report.value) for one in load.promises)
            print(f"{took:.0f} s, {dict(told)}, {kills.total()} kills {dict(kills)}, {running.restarts} restarts")
            print(
                f"receipts withheld {sum(each.withheld for each in nodes)}, logs left out "
                f"{sum(each.lost for each in nodes)}, nonces told wrongly {sum(each.told_lies for each in nodes)}"
            )
            assert kills.total() >= took / KILL_SECONDS - 2
            assert all(each.withheld and each.lost and each.told_lies for each in nodes)
            # What compares tables with contracts asks the chain itself, not the provider under test.
            running.extra["indexer-0"] = {
                "VPM_BASE_RPC_URLS": running.urls["base"],
                "VPM_STOCK_RPC_URLS": running.urls["stock"],
            }
            assert await faults(running, load) == []
            taken = Counter(one.surface for one in load.promises if one.report is LoadReport.TAKEN)
            refused = Counter(
                (one.surface, (one.answer or {}).get("error"), (one.answer or {}).get("receipt"))
                for one in load.promises
                if one.report is LoadReport.REFUSED
            )
            print(f"taken {dict(taken)}, refused {dict(refused)}")
            assert taken["stock"] >= BETS * 0.5
            assert taken["agent"] >= TRADES * 0.5  # on a busy machine many an answer comes too late


async def seen_by_all(running: Fleet) -> None:
    """Waits until what is on the chains now is so deep that each view of them has it."""

    async def deep(url: str) -> None:
        height = await asyncio.to_thread(ask, url, "eth_blockNumber")
        while int(await asyncio.to_thread(ask, url, "eth_blockNumber"), 16) < int(height, 16) + max(VIEWS):
            await asyncio.sleep(0.1)

    await asyncio.gather(*map(deep, running.urls.values()))


async def place(load: Load, surface: str, bet: Callable[..., Awaitable[object]], count: int, per_second: float) -> None:
    """So many bets, each by the next wallet; returns when each has had its answer or its patience."""
    begun: list[asyncio.Task[None]] = []
    while sum(one.surface == surface for one in load.promises) < count:
        open_now = sum(not one.done() for one in begun)
        if open_now < AT_ONCE:
            begun.append(asyncio.create_task(quietly(bet, load, len(begun))))
        await asyncio.sleep(1 / per_second)
    await asyncio.gather(*begun)


async def quietly(bet: Callable[..., Awaitable[object]], load: Load, turn: int) -> None:
    """A page that could not be read means that nothing was signed: another one is placed in its stead."""
    try:
        await bet(load.bettors[turn % WALLETS])
    except (TimeoutError, OSError):
        return


async def kill_every_few_seconds(running: Fleet, chance: random.Random) -> Counter[str]:
    """SIGKILL for any daemon that lives; the fleet starts it again. Ends by being cancelled."""
    kills: Counter[str] = Counter()
    began = time.monotonic()
    try:
        while True:
            await asyncio.sleep(max(0.0, began + KILL_SECONDS * (kills.total() + 1) - time.monotonic()))
            name = chance.choice(sorted(name for name, each in running.running.items() if each.alive()))
            kills[name.rpartition("-")[0]] += 1
            running.kill(name)
    except asyncio.CancelledError:
        return kills


async def lie_once(nodes: list[HazyNode]) -> None:
    await asyncio.sleep(10)
    for each in nodes:
        each.lies.append(3)

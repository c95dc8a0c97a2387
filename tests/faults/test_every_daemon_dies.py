"""The whole stock service under load while its daemons are killed (-9), one after the other, at random instants.

A crowd bets 20 times a second through the public relay endpoint. Indexer, relayer, keeper and API die at random and are
started again at once. Afterwards, without a person: every market is settled and paid, every accepted bet was mined
exactly once, every wallet and every lane holds to the unit what the chain's own record says it must, and the index
equals the contracts.

Short by default. `VPM_TEST_LONG=1` runs the full drill: 10 minutes, 100 kills. `VPM_TEST_SECONDS` sets another length.
The seed is printed; `VPM_TEST_SEED` repeats the choices.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._local.ports import free_port
from scripts._stack import wallets
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged
from tests.support.relay_crowd import Crowd
from tests.support.whole_service import assert_nothing_is_lost_or_doubled, ended, lanes

pytestmark = pytest.mark.thorough

LONG = os.environ.get("VPM_TEST_LONG") == "1"
SECONDS = float(os.environ.get("VPM_TEST_SECONDS", "600" if LONG else "30"))
PER_SECOND = 20
KILLS = round(SECONDS / 6)
WALLETS = 300
"""A wallet may bet ten times a minute."""
DAEMONS = ("indexer", "relayer", "keeper", "api")


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "stock") as running:
        yield running


@pytest.mark.timeout(900 + 3 * SECONDS)
async def test_every_accepted_bet_is_mined_once_and_all_money_adds_up_whatever_dies(rig: Rig) -> None:
    seed = os.environ.get("VPM_TEST_SEED", str(random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    port = str(free_port())
    rig.extra = {
        "VPM_PORT": port,
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "VPM_TRUST_PROXY": "1",
        "VPM_RELAYER_LEASE_SECONDS": "3",
        "VPM_RELAYER_RESEND_AFTER_SECONDS": "2",
        # Thousands of bets in minutes are meant here; the stop-loss would end the drill, as it should elsewhere.
        "VPM_RELAYER_GAS_PER_HOUR_ETHER": "50",
        "VPM_STOP_GRACE_SECONDS": "3",
    }
    lanes_before = lanes(rig)
    crowd = Crowd(rig, f"http://127.0.0.1:{port}", WALLETS, random.Random(f"{seed} crowd"))
    crowd.fund(wallets.DEV[0])
    rig.start(*DAEMONS)
    await rig.works()
    await rig.until(lambda: rig.rows("SELECT 1 FROM stock_market WHERE family = 2"), "a first market")

    betting = asyncio.create_task(crowd.bet(SECONDS, PER_SECOND))
    kills = await kill_at_random(rig, chance)
    await betting
    landed = await ended(rig, crowd)
    print(f"{len(crowd.placed)} bets, {len(landed)} landed, {sum(kills.values())} kills {dict(kills)}")
    print(f"final answers {dict(crowd.words())}")
    assert sum(kills.values()) == KILLS
    await assert_nothing_is_lost_or_doubled(rig, crowd, landed, lanes_before)


async def kill_at_random(rig: Rig, chance: random.Random) -> Counter[str]:
    """Kills daemons at random instants and starts each again at once; two instants may be no time apart."""
    kills: Counter[str] = Counter()
    began = time.monotonic()
    for instant in sorted(chance.uniform(0, SECONDS) for _ in range(KILLS)):
        await asyncio.sleep(max(0.0, began + instant - time.monotonic()))
        for each, process in rig.daemons.items():
            assert process.alive(), f"{each} ended by itself:\n{rig.tail(each)}"
        name = chance.choice(DAEMONS)
        await asyncio.to_thread(rig.daemons.pop(name).kill_program)
        rig.start(name)
        kills[name] += 1
    return kills

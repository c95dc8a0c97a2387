"""PostgreSQL fails over under load: the primary dies at once, its synchronous standby takes its place, and every daemon
goes on by itself, with the one `DATABASE_URL` that names both.

Nothing acknowledged is lost, nothing is doubled, and the index equals the contracts afterwards. `VPM_TEST_LONG=1` does
it ten times over, each with two new servers.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import psycopg
import pytest

from core.db.engine import conninfo
from core.db.migrate import migrate
from scripts._local.ports import free_port
from scripts._stack import wallets
from tests.support.genesis import Genesis
from tests.support.keeper_rig import rigged
from tests.support.read_replica import replicated
from tests.support.relay_crowd import Crowd
from tests.support.whole_service import assert_nothing_is_lost_or_doubled, ended, lanes

pytestmark = pytest.mark.thorough

TIMES = 10 if os.environ.get("VPM_TEST_LONG") == "1" else 1
SECONDS = 40.0
PER_SECOND = 10
DAEMONS = ("indexer", "relayer", "keeper", "api")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("attempt", range(TIMES))
async def test_the_primary_dies_and_everything_goes_on(local_genesis: Genesis, tmp_path: Path, attempt: int) -> None:
    seed = os.environ.get("VPM_TEST_SEED", str(random.randrange(2**32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    with replicated(tmp_path, synchronous=True) as pair:
        with psycopg.connect(conninfo(pair.primary_url("postgres")), autocommit=True) as connection:
            connection.execute("CREATE DATABASE vpm")
        url = pair.either_url("vpm")
        migrate(url)
        with rigged(local_genesis, url, tmp_path, "stock") as rig:
            port = str(free_port())
            rig.extra = {
                "VPM_PORT": port,
                "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
                "VPM_TRUST_PROXY": "1",
                "VPM_RELAYER_LEASE_SECONDS": "3",
                "VPM_RELAYER_RESEND_AFTER_SECONDS": "2",
                "VPM_RELAYER_GAS_PER_HOUR_ETHER": "50",
                "VPM_STOP_GRACE_SECONDS": "3",
            }
            before = lanes(rig)
            crowd = Crowd(rig, f"http://127.0.0.1:{port}", 100, random.Random(f"{seed} crowd"))
            crowd.fund(wallets.DEV[0])
            rig.start(*DAEMONS)
            await rig.works()
            await rig.until(lambda: rig.rows("SELECT 1 FROM stock_market WHERE family = 2"), "a first market")

            betting = asyncio.create_task(crowd.bet(SECONDS, PER_SECOND))
            await asyncio.sleep(chance.uniform(8, 15))
            taken = len(rig.rows("SELECT 1 FROM outbox_intent WHERE kind = 'enter'"))
            await asyncio.to_thread(pair.fail_over)
            await betting
            for name, process in rig.daemons.items():
                assert process.alive(), f"{name} ended by itself:\n{rig.tail(name)}"
            assert len(rig.rows("SELECT 1 FROM outbox_intent WHERE kind = 'enter'")) > taken, "bets go on"
            landed = await ended(rig, crowd)
            print(f"{len(crowd.placed)} bets, {len(landed)} landed; final answers {dict(crowd.words())}")
            await assert_nothing_is_lost_or_doubled(rig, crowd, landed, before)

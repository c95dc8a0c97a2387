"""PostgreSQL fails over under load: the primary dies, its synchronous standby replaces it, and every daemon continues
without a restart, with the one `DATABASE_URL` that names both. Nothing acknowledged is lost, nothing is doubled, and
the index equals the contracts afterwards. `VPM_TEST_LONG=1` does it ten times, each with two new servers."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.support.fleet import FleetSize, fleet
from tests.support.fleet_checks import bet_taken, faults, lane_faults, warm
from tests.support.fleet_load import Load
from tests.support.genesis import Genesis
from tests.support.read_replica import replicated

pytestmark = pytest.mark.thorough

TIMES = 10 if os.environ.get("VPM_TEST_LONG") == "1" else 1
SIZE = FleetSize(api=1, indexer=1, keeper=1, relayer=1)
PACE_SECONDS = 0.5


@pytest.mark.timeout(900)
@pytest.mark.parametrize("attempt", range(TIMES))
async def test_the_primary_dies_and_everything_goes_on(local_genesis: Genesis, tmp_path: Path, attempt: int) -> None:
    with replicated(tmp_path, synchronous=True) as pair:
        folder = tmp_path / "fleet"
        async with (
            fleet(folder, local_genesis.state, SIZE, patience=4.0, pair=pair) as running,
            Load(running, pace=PACE_SECONDS) as load,
        ):
            await warm(running, load)
            await asyncio.sleep(random.uniform(0, 5))
            await asyncio.to_thread(pair.fail_over)
            await bet_taken(running, load, 60)
            assert running.restarts == 0, "a daemon ended when the primary did"
            assert await faults(running, load) == []
            assert await lane_faults(running) == []

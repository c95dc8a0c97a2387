"""Every drill fails when the guard that it is about is taken out of the daemons, and says so for that reason.

All on one service, which is whole again after each; a drill that holds there on a whole service is `vpm drill --all`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from core.paths import REPOSITORY
from scripts._drill.catalogue import DRILLS
from scripts._drill.drill import bet_taken
from scripts._drill.fleet import Fleet, FleetSize, fleet
from scripts._drill.load import Load
from scripts._drill.run import run_drills, warm
from tests.support.genesis import Genesis
from tests.support.sabotage import PAGE, SABOTAGE, page

pytestmark = pytest.mark.asyncio(loop_scope="module")

A_FEW = ("kill-keeper", "reorg")
"""That a drill which only asked the service itself would hold without their guards."""
TRIED = tuple(DRILLS) if os.environ.get("VPM_TEST_LONG") == "1" else A_FEW


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drilled(
    local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Fleet, Load]]:
    folder: Path = tmp_path_factory.mktemp("drilled")
    small = FleetSize(api=1, indexer=1, keeper=1, relayer=1)
    async with fleet(folder / "fleet", local_genesis.state, small, patience=5.0) as running, Load(running) as load:
        await warm(running, load, print)
        yield running, load


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TRIED)
async def test_a_drill_fails_without_the_guard_it_is_about(
    drilled: tuple[Fleet, Load], tmp_path: Path, name: str
) -> None:
    running, load = drilled
    sabotage = SABOTAGE[name]
    said: list[str] = []
    running.patience = 5.0
    await bet_taken(running, load, 90)  # the service is whole
    names = sabotage.begin(running, tmp_path / "broken")
    try:
        await running.until_ready(*names)
        running.patience = 1.0  # what cannot come is not waited for as long
        (result,) = await run_drills(running, [DRILLS[name]], load, said.append)
    finally:
        running.patience = 5.0
        await asyncio.to_thread(sabotage.end, running, names)
        await running.until_ready(*names)
    assert not result.passed, said
    assert sabotage.told in result.happened, result.happened


async def test_every_drill_says_what_is_different_afterwards_and_has_a_guard() -> None:
    assert SABOTAGE.keys() == DRILLS.keys()
    assert len({drill.afterwards for drill in DRILLS.values()}) >= len(DRILLS) - 3
    for name, sabotage in SABOTAGE.items():
        assert len(DRILLS[name].afterwards) > 20, name
        assert (REPOSITORY / sabotage.where).exists(), sabotage.where
        assert sabotage.told, name


async def test_the_page_shows_the_drills() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.support.sabotage"

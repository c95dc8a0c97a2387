"""The contract against the independent model, over thousands of random market histories, with every number equal to the
unit.

An ordinary run plays 150, a thorough one 500 and `VPM_TEST_LONG=1` 10,000; `VPM_TEST_HISTORIES` sets another number,
`VPM_TEST_SEED` the seed. A failure names the history's number and step; `tests.contracts.model.encoding.history(seed,
number)` makes it again.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._vpm.forge import BUILDS
from tests.contracts.forge_runs import forge_test
from tests.contracts.model.encoding import write

LONG = os.environ.get("VPM_TEST_LONG") == "1"
COUNT = int(os.environ.get("VPM_TEST_HISTORIES", "10000" if LONG else "500"))
FEW = min(40, COUNT)
SEED = os.environ.get("VPM_TEST_SEED", "vested")

pytestmark = pytest.mark.timeout(1_200)  # the first to need the contracts compiles them, and the others wait for it


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder that forge may read, and remove it afterwards: 10,000 histories are 125 MB."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="histories-", dir=BUILDS) as name:
        yield Path(name)


def replay(folder: Path) -> subprocess.CompletedProcess[str]:
    return forge_test(
        "tests/contracts/forge/history/Histories.t.sol", VPM_HISTORIES=f"{folder.relative_to(REPOSITORY)}/"
    )


@pytest.mark.parametrize("count", [FEW, pytest.param(COUNT, marks=pytest.mark.thorough)], ids=["few", "many"])
def test_the_contract_equals_the_model_on_every_history(folder: Path, count: int) -> None:
    print(f"{count} histories of seed {SEED!r}")
    write(folder, SEED, count)
    run = replay(folder)
    assert run.returncode == 0, run.stdout[-4000:]
    assert sum(int(n) for n in re.findall(r"histories replayed: (\d+)", run.stdout)) == count

"""The contract against the independent model, over thousands of random market histories, every number to the unit.

150 in an ordinary run, 500 in a thorough one and 10,000 with `VPM_TEST_LONG=1`; `VPM_TEST_HISTORIES` overrides how
many, `VPM_TEST_SEED` which. A failure names the history's number and step;
`tests.contracts.model.encoding.history(seed, number)` makes it again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._vpm.forge import BUILDS
from tests.contracts.forge_runs import forge_test
from tests.contracts.model.encoding import PER_FILE, encoded, history, words, write
from tests.contracts.model.histories import (
    ACTORS,
    MAX_ENTRY,
    MAX_FEE,
    MAX_KAPPA,
    Enter,
    History,
    Resolve,
    Void,
)
from tests.contracts.model.narrator import Narrator

LONG = os.environ.get("VPM_TEST_LONG") == "1"
COUNT = int(os.environ.get("VPM_TEST_HISTORIES", "10000" if LONG else "500"))
FEW = min(40, COUNT)
SEED = os.environ.get("VPM_TEST_SEED", "vested")

pytestmark = pytest.mark.timeout(1_200)  # the first to need the contracts compiles them, and the others wait for it


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder forge may read, gone afterwards: 10,000 histories are 125 MB."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="histories-", dir=BUILDS) as name:
        yield Path(name)


def replay(folder: Path) -> subprocess.CompletedProcess[str]:
    """The histories in the folder, played by forge."""
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


@pytest.mark.thorough
def test_the_replay_sees_a_number_that_is_off_by_one(folder: Path) -> None:
    """One unit more in what is expected of a position must fail the replay, or it compares nothing."""
    told = history(SEED, 0)
    right = words(0, told)
    entries = 2 + sum(isinstance(step, Enter) for step in told.steps)
    # The last check ends with two words a position, and only the order of the positions follows it.
    last_check = len(right) - (2 + entries) - 2 * entries
    wrong = list(right)
    wrong[last_check + 2 * entries - 1] += 1
    (folder / "0.bin").write_bytes(encoded([wrong]))
    run = replay(folder)
    assert run.returncode != 0
    assert "Differs(0, " in run.stdout


def test_the_histories_go_where_they_should() -> None:
    """The generator reaches what the replay is for: rationing on both sides, crowds, every ending, the edges."""
    seen: Counter[str] = Counter()
    entries = 0
    sample = 1000
    for number in range(sample):
        told = history(SEED, number)
        entries += sum(isinstance(step, Enter) for step in told.steps)
        seen.update(features(told))
    assert entries >= 15 * sample
    print(json.dumps(dict(sorted(seen.items()))))
    for feature in FEATURES:
        assert seen[feature] >= sample // 100, feature


FEATURES = (
    "resolved UP",
    "resolved DOWN",
    "void by the resolver",
    "void by anyone",
    "settled with a vintage pending",
    "settled in the block of the last entry",
    "both sides rationed in a vintage",
    "a side refused whole",
    "five entries on a side of a vintage",
    "kappa 1",
    "largest kappa",
    "seed 1",
    "largest entry",
    "no fee",
    "largest fee",
    "a winner without gain",
    "residue",
    "cap of a side reached",
    "delivery to a new owner",
)


def features(told: History) -> set[str]:
    narrator = Narrator(told)
    narrator.opening()
    seen = {
        name
        for name, holds in {
            "kappa 1": told.kappa == 1,
            "largest kappa": told.kappa == MAX_KAPPA,
            "seed 1": told.seed == 1,
            "no fee": told.fee_bps == 0,
            "largest fee": told.fee_bps == MAX_FEE,
        }.items()
        if holds
    }
    model = narrator.model
    for step in told.steps:
        if isinstance(step, Enter) and step.amount == MAX_ENTRY:
            seen.add("largest entry")
        if isinstance(step, Resolve | Void):
            if narrator.pending is not None:
                seen.add("settled with a vintage pending")
                if narrator.pending.block == narrator.run.block:
                    seen.add("settled in the block of the last entry")
            if isinstance(step, Void):
                seen.add("void by the resolver" if step.by_resolver else "void by anyone")
            else:
                seen.add("resolved DOWN" if step.winner else "resolved UP")
        narrator.do(step)
    for block in {e.block for e in model.entries if e.block}:
        sides = [[e for e in model.entries if e.block == block and e.side == side] for side in (0, 1)]
        refused = [sum(e.offered - (e.accepted or 0) for e in side) for side in sides]
        if all(refused):
            seen.add("both sides rationed in a vintage")
        if any(side and not any(e.accepted for e in side) for side in sides):
            seen.add("a side refused whole")
        if any(len(side) >= 5 for side in sides):
            seen.add("five entries on a side of a vintage")
    winners = [e for e in model.entries if e.side == model.winner and e.accepted]
    if any(model.accrued(e) == e.accepted for e in winners):
        seen.add("a winner without gain")
    if narrator.residue_taken:
        seen.add("residue")
    if any(model.principal(side) == told.side_cap for side in (0, 1)):
        seen.add("cap of a side reached")
    if any(int(e.owner) < ACTORS for e in model.entries[:2]):
        seen.add("delivery to a new owner")
    return seen


def test_any_history_can_be_made_again() -> None:
    number = 3 * PER_FILE + 7
    assert words(number, history(SEED, number)) == words(number, history(SEED, number))
    assert history(SEED, number) != history(SEED, number + 1)

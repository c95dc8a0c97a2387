"""Whole worlds: a few in every thorough run, many with VPM_TEST_LONG=1."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from core.paths import REPOSITORY
from tests.simulator.sides import SIDES

pytestmark = pytest.mark.thorough

LONG = os.environ.get("VPM_TEST_LONG") == "1"
SEEDS = int(os.environ.get("VPM_TEST_SEEDS", "200")) if LONG else 1
SHORT = {"agent": "235", "cup": "17", "stock": "109"}  # of a thorough run: short worlds, with bets, deaths and forks


def _simulator(surface: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the simulator in a new process, because the result depends on Python's hash seed."""
    command = [sys.executable, "-m", "tests.simulator", "--surface", surface, *arguments]
    given = {**os.environ, "PYTHONHASHSEED": "0", **environment}
    return subprocess.run(command, cwd=REPOSITORY, env=given, capture_output=True, text=True, check=False)


@pytest.mark.timeout(0 if LONG else 900)
@pytest.mark.parametrize("surface", sorted(SIDES))
def test_every_seed_ends_with_the_five_sentences(surface: str) -> None:
    first = os.environ.get("VPM_TEST_SEED", "1" if LONG else SHORT[surface])
    ended = _simulator(surface, "--from", first, "--seeds", str(SEEDS), "--jobs", "2" if LONG else "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(not LONG, reason="VPM_TEST_LONG=1: a world twice")
@pytest.mark.parametrize("surface", sorted(SIDES))
def test_a_seed_replays_exactly(surface: str) -> None:
    """Replay a seed in another process, where everything in memory has another address."""
    seed = SHORT[surface]
    digests = set()
    for allocator in ("pymalloc", "malloc"):
        ended = _simulator(surface, "--from", seed, "--seeds", "1", PYTHONMALLOC=allocator)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        _, _, _, digest, *_ = next(line for line in ended.stdout.splitlines() if line.startswith("seed ")).split()
        digests.add(digest)
    assert len(digests) == 1

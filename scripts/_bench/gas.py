"""`./vpm bench gas`: measures the execution gas of every call in the gas tables (see docs/performance.md), using the
deployed build. The forge tests named Gas log `GAS|token|call|gas|limit`. A test fails if a call uses more gas than its
limit, which is the gas measured when the test was written. With VPM_TEST_LONG=1, the tests record a year of pool feed
readings, one a minute, instead of two days."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from core.paths import REPOSITORY
from scripts._bench.harness import Figure
from scripts._deploy import build
from scripts._vpm.forge import compiling, forge

BUILD = REPOSITORY / ".vpm" / "build" / "recorded"
TESTS = "tests/contracts/forge/**/Gas.t.sol"
YEAR_TESTS = "tests/contracts/forge/feeds/year/Gas.t.sol"
DAYS_A_YEAR, DAYS_AT_ONCE = 365, 30
MINUTES_A_YEAR = 525_600
UNLIMITED_GAS = 2**63 - 1  # of a whole test; each call in it is a separate transaction

# The call, as the test names it; the lowest figure known elsewhere; the limit.
ROWS = (
    ("open a market (create + register + list)", 1_094_097, 520_000),
    ("enter, first in a block (finalizes a vintage)", 230_114, 160_000),
    ("enter, first in a block (finalizes a rationed vintage)", None, 160_000),
    ("enter, joining an open vintage", 126_952, 105_000),  # elsewhere up to 166,702
    ("enterWithAuthorization, joining", 195_976, 170_000),
    ("finalize a vintage of 200 entries", 6_802_465, 60_000),
    ("finalize a rationed vintage of 200 entries", None, 60_000),
    ("resolve from two given rounds", 164_161, 130_000),
    ("deliver a winning position, in a batch of 50 (each)", 53_858, 40_000),
    ("settle into a warm market", None, 195_000),
    ("settle in the receive form", None, 170_000),
    ("resolve a wallet market with a given round", None, 90_000),
    ("pay a stake, in a batch of 50 (each)", None, 40_000),
    ("list a binary market with 400 bytes of metadata", None, 260_000),
    ("record, one pool", None, 190_000),
    ("record, one pool, 12 hours late", None, 190_000),
    ("record, two pools", None, 340_000),
    ("record, two pools, 12 hours late", None, 340_000),
    ("record, one pool, in a batch of 60 (each)", None, 70_000),
    ("record, two pools, in a batch of 60 (each)", None, 115_000),
    ("read a recorded reading", None, 5_000),
    ("a minute, in hours, with base cost and calldata, one pool", None, 37_000_000_000 // MINUTES_A_YEAR),
    ("a minute, in hours, with base cost and calldata, two pools", None, 60_000_000_000 // MINUTES_A_YEAR),
    ("read any of those minutes, one pool", None, 5_000),
    ("read any of those minutes, two pools", None, 5_000),
)

YEAR_LINE = re.compile(r"(?:one pool|two pools): \d+ readings, \d+ swaps in each, \d+ gas")
GAS_LINE = re.compile(r"GAS\|\w+\|([^|]+)\|(\d+)\|(\d+)")


def measure(_folder: Path, *, quick: bool) -> list[Figure]:
    del quick  # there is no smaller form
    long = bool(os.environ.get("VPM_TEST_LONG"))
    write_artifacts()
    with compiling():
        forge("build")  # silently: a compile error fails below, with its message
    runs = [_forge(TESTS, 0, DAYS_AT_ONCE if long else 2)]
    for first in range(DAYS_AT_ONCE, DAYS_A_YEAR, DAYS_AT_ONCE) if long else ():
        runs.append(_forge(YEAR_TESTS, first, min(DAYS_AT_ONCE, DAYS_A_YEAR - first)))
        print(f"days {first} and on: {', '.join(YEAR_LINE.findall(runs[-1].stdout))}")
    failed = [run for run in runs if run.returncode != 0]
    for run in failed:
        print(run.stdout[-4000:], file=sys.stderr)
    measured: dict[str, tuple[int, int]] = {}  # call: gas, limit
    for call, gas, limit in GAS_LINE.findall("".join(run.stdout for run in runs)):
        measured[call] = max((int(gas), int(limit)), measured.get(call, (0, 0)))
    missing = [what for what, *_ in ROWS if what not in measured]
    table = [Figure(what, measured.pop(what)[0], known, most=limit) for what, known, limit in ROWS if what in measured]
    return [
        *table,
        *(Figure(f"not in the tables: {call}", gas, most=limit) for call, (gas, limit) in measured.items()),
        *(Figure(f"not measured: {what}", 1, most=0) for what in missing),
        Figure("runs of forge that failed", len(failed), most=0),
    ]


def _forge(tests: str, first_day: int, days: int) -> subprocess.CompletedProcess[str]:
    return forge(
        "test", "--match-path", tests, "--gas-limit", str(UNLIMITED_GAS), "-vv",
        VPM_YEAR_FROM_DAY=str(first_day), VPM_YEAR_DAYS=str(days),
    )  # fmt: skip


def write_artifacts() -> None:
    """Write the deployed build as forge artifacts for RecordedBuild.sol."""
    asyncio.run(build.compile_all())
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    for name, artifact in build.compiled_contracts().items():
        code = (artifact.get("deploymentBytecode") or {}).get("bytecode")
        if code:
            (BUILD / f"{name}.json").write_text(json.dumps({"bytecode": {"object": code}}))

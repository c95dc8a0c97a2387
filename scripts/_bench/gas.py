"""`./vpm bench gas`: execution gas of every call in the gas tables.

Execution gas of the call as its own transaction with cold storage, without the 21,000 base and calldata, on the local
tokens, in the build that is deployed. "Known best" is the strongest public implementation of the same mechanism
measured the same way; the settlement wallet has no such peer. The figures come from the forge tests named Gas, which
log `GAS|token|call|gas|limit` and fail above that limit, which is what the call cost when it was written: no row
grows unnoticed. `./vpm test` runs this as a stage; VPM_TEST_LONG=1 records pool feeds for a year of minutes, thirty
days at a time, instead of two days.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from core.paths import REPOSITORY
from scripts._stack import contracts
from scripts._vpm.forge import compiling, forge

BUILD = REPOSITORY / ".vpm" / "build" / "recorded"
TESTS = "tests/contracts/forge/**/Gas.t.sol"
OF_A_YEAR = "tests/contracts/forge/feeds/year/Gas.t.sol"
DAYS_A_YEAR, DAYS_AT_ONCE = 365, 30
MINUTES_A_YEAR = 525_600
UNLIMITED_GAS = 2**63 - 1  # of a whole test; each call in it is a transaction of its own


@dataclass(frozen=True)
class Row:
    """A row of the gas table: what is measured, the best figure known elsewhere, and the limit."""

    what: str  # as the test names it
    known_best: str
    limit: int


ROWS = (
    Row("open a market (create + register + list)", "1,094,097", 520_000),
    Row("enter, first in a block (finalizes a vintage)", "230,114", 160_000),
    Row("enter, first in a block (finalizes a rationed vintage)", "", 160_000),
    Row("enter, joining an open vintage", "126,952 to 166,702", 105_000),
    Row("enterWithAuthorization, joining", "195,976", 170_000),
    Row("finalize a vintage of 200 entries", "6,802,465", 60_000),
    Row("finalize a rationed vintage of 200 entries", "", 60_000),
    Row("resolve from two given rounds", "164,161", 130_000),
    Row("deliver a winning position, in a batch of 50 (each)", "53,858", 40_000),
    Row("settle into a warm market", "", 195_000),
    Row("settle in the receive form", "", 170_000),
    Row("resolve a wallet market with a given round", "", 90_000),
    Row("pay a stake, in a batch of 50 (each)", "", 40_000),
    Row("list a binary market with 400 bytes of metadata", "", 260_000),
    Row("record, one pool", "", 190_000),
    Row("record, one pool, 12 hours late", "", 190_000),
    Row("record, two pools", "", 340_000),
    Row("record, two pools, 12 hours late", "", 340_000),
    Row("record, one pool, in a batch of 60 (each)", "", 70_000),
    Row("record, two pools, in a batch of 60 (each)", "", 115_000),
    Row("read a recorded reading", "", 5_000),
    Row("a minute, in hours, with base cost and calldata, one pool", "", 37_000_000_000 // MINUTES_A_YEAR),
    Row("a minute, in hours, with base cost and calldata, two pools", "", 60_000_000_000 // MINUTES_A_YEAR),
    Row("read any of those minutes, one pool", "", 5_000),
    Row("read any of those minutes, two pools", "", 5_000),
)

PLAYED = re.compile(r"(?:one pool|two pools): \d+ readings, \d+ swaps in each, \d+ gas")
LINE = re.compile(r"GAS\|\w+\|([^|]+)\|(\d+)\|(\d+)")


def main(*, quick: bool = False) -> int:
    long = bool(os.environ.get("VPM_TEST_LONG"))
    lay_out_build()
    with compiling():
        forge("build")  # says nothing: what does not compile fails below, and says why
    runs = [_forge(TESTS, 0, DAYS_AT_ONCE if long else 2)]
    for first in range(DAYS_AT_ONCE, DAYS_A_YEAR, DAYS_AT_ONCE) if long else ():
        runs.append(_forge(OF_A_YEAR, first, min(DAYS_AT_ONCE, DAYS_A_YEAR - first)))
        print(f"days {first} and on: {', '.join(PLAYED.findall(runs[-1].stdout))}")
    failed = [run for run in runs if run.returncode != 0]
    measured: dict[str, tuple[int, int]] = {}  # call: gas, what it cost when last looked at
    for call, gas, limit in LINE.findall("".join(run.stdout for run in runs)):
        measured[call] = max((int(gas), int(limit)), measured.get(call, (0, 0)))
    over = [row.what for row in ROWS if row.what not in measured or measured[row.what][0] > row.limit]
    table = [(row.what, row.known_best, row.limit, *measured.get(row.what, (None, None))) for row in ROWS]
    others = [call for call in measured if call not in {row.what for row in ROWS}]

    print(f"{'Call':<84}{'known best':>20}{'ours, at most':>15}{'measured':>10}")
    for what, known_best, limit, gas, was in table:
        shown = "missing" if gas is None else f"{gas:,}"
        print(f"{what:<84}{known_best or '-':>20}{limit:>15,}{shown:>10}{_remark(gas, limit, was)}")
    print("\nNot in the tables")
    for call in others:
        gas, was = measured[call]
        print(f"{call:<84}{'':>35}{gas:>10,}{_remark(gas, was, was)}")
    for run in failed:
        print(run.stdout[-4000:], file=sys.stderr)
    return 1 if over or failed else 0


def _forge(tests: str, first_day: int, days: int) -> subprocess.CompletedProcess[str]:
    return forge(
        "test", "--match-path", tests, "--gas-limit", str(UNLIMITED_GAS), "-vv",
        VPM_YEAR_FROM_DAY=str(first_day), VPM_YEAR_DAYS=str(days),
    )  # fmt: skip


def lay_out_build() -> None:
    """What is deployed, as artifacts that forge reads: RecordedBuild.sol."""
    if not contracts.compiled():
        asyncio.run(contracts.compile_all())
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    for name, artifact in contracts.compiled_contracts().items():
        code = (artifact.get("deploymentBytecode") or {}).get("bytecode")
        if code:
            (BUILD / f"{name}.json").write_text(json.dumps({"bytecode": {"object": code}}))


def _remark(gas: int | None, limit: int, was: int | None) -> str:
    if gas is None or gas > limit:
        return "  OVER"
    return f"  GREW from {was:,}" if was is not None and gas > was else ""

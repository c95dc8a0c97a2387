"""Theorems about compiled contracts: Halmos runs each for every input at once.

Its exit code of a theorem says more than its summary: a theorem whose every path reverts, or whose loops it stopped
following, has proved nothing, and is not counted.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts._prove.provers import environment
from scripts._prove.theorem import PROVED, REFUTED, Outcome, Theorem
from scripts._vpm.forge import GIVING_WAY

# How long Halmos may ask whether a branch can be taken. When it gives up it follows the branch, so that on a busy
# machine its own millisecond makes it turn a loop that ends, and call the theorem bounded.
BRANCH_PATIENCE = "2s"
OUT = ".vpm/build/prove/out"
_RESULTS = {0: PROVED, 1: REFUTED, 2: "timed out", 3: "stuck", 4: "vacuous: every path reverts", 5: "error"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class NotBuilt(Exception):
    """The failure of the theorems to compile, with what forge said."""


def build(project: Path) -> None:
    built = subprocess.run(
        ["forge", "build", "--ast", "--extra-output", "storageLayout", "metadata"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise NotBuilt((built.stdout + built.stderr)[-2000:])


def prove(theorems: Sequence[Theorem], project: Path) -> list[Outcome]:
    """All of one contract, in one run of Halmos."""
    (contract,) = {theorem.contract for theorem in theorems}
    names = "|".join(theorem.function for theorem in theorems)
    seconds = sum(theorem.seconds for theorem in theorems)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [*GIVING_WAY, "halmos", "--root", str(project), "--forge-build-out", OUT, "--no-status"]
        command += ["--contract", contract, "--match-test", rf"^({names})\(", "--json-output", str(report)]
        command += ["--loop", str(max(theorem.loops for theorem in theorems)), "--solver-threads", "1"]
        command += ["--solver-timeout-assertion", f"{max(theorem.seconds for theorem in theorems)}s"]
        command += ["--solver-timeout-branching", BRANCH_PATIENCE]
        started = time.monotonic()
        try:
            ran = subprocess.run(
                command, cwd=project, env=environment(), capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return [Outcome(theorem, "timed out", time.monotonic() - started) for theorem in theorems]
        said = _ANSI.sub("", ran.stdout + ran.stderr)
        if not report.exists():
            return [Outcome(theorem, "error", 0.0, said[-2000:]) for theorem in theorems]
        (results,) = json.loads(report.read_text())["test_results"].values() or ([],)
    by_name = {result["name"].partition("(")[0]: result for result in results}
    return [_outcome(theorem, by_name.get(theorem.function), said) for theorem in theorems]


def _outcome(theorem: Theorem, result: dict[str, Any] | None, said: str) -> Outcome:
    if result is None:
        return Outcome(theorem, "error", 0.0, f"there is no {theorem.proof}\n{said[-2000:]}")
    name, seconds = _RESULTS.get(result["exitcode"], "error"), result["time"][0]
    if name == PROVED and result["num_bounded_loops"]:
        return Outcome(theorem, f"bounded: a loop turns more than {theorem.loops} times", seconds)
    return Outcome(theorem, name, seconds, "" if name == PROVED else said[-2000:])

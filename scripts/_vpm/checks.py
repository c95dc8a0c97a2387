"""`./vpm test`: every check of the project, one after another, then one summary.

A stage passes or fails; nothing is skipped silently. In CI (CI=true) a stage that cannot run here is a failure.

Tests with real processes share two cores with their neighbours and wait for real clocks. When only a few of a stage
fail, those are run once more, alone: a defect fails again, a want of processor time does not. What needed that is named
in the summary, so it is mended rather than forgotten (docs/decisions/0006).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from core.local.packages import foundry_binary

ROOT = Path(__file__).resolve().parents[2]
# Replays of files that a Python test generates first; those tests run forge themselves.
GENERATED_FIRST = "tests/contracts/forge/{history/Histories.t.sol,agent/Vectors.t.sol,feeds/Cases.t.sol}"


QUICK = ("lint", "types", "imports", "unit")  # what needs no chain, database or compiler
_PROFILE = {"FOUNDRY_PROFILE": "long" if os.environ.get("VPM_TEST_LONG") else "quick"}

FEW = 3  # more failures than this are not a matter of luck

unsteady: list[str] = []  # tests of this run that failed beside others and passed alone


@dataclass(frozen=True)
class Stage:
    """A stage of `vpm test`."""

    name: str
    what: str
    run: Callable[[Sequence[str]], int]


def main(argv: list[str]) -> int:
    rest = argv[argv.index("--") + 1 :] if "--" in argv else []
    own = argv[: argv.index("--")] if "--" in argv else argv
    parser = argparse.ArgumentParser(prog="vpm test", add_help=False)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--only", action="append", choices=[s.name for s in STAGES])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args(own)
    if args.paths and (args.only or args.quick):
        parser.error("name paths, or choose stages, not both")
    if args.paths:
        return _just(args.paths, rest)
    if args.list:
        for stage in STAGES:
            print(f"{stage.name:<12} {stage.what}")
        return 0
    names = set(args.only or ()) | (set(QUICK) if args.quick else set())
    chosen = [s for s in STAGES if not names or s.name in names]
    results: list[tuple[Stage, int, float]] = []
    for stage in chosen:
        print(f"\n=== {stage.name}: {stage.what}", flush=True)
        start = time.monotonic()
        code = stage.run(rest)
        results.append((stage, code, time.monotonic() - start))
    print("\n=== summary")
    for stage, code, seconds in results:
        print(f"{'ok    ' if code == 0 else 'FAILED'} {stage.name:<10} {seconds:7.1f} s  {stage.what}")
    for test in unsteady:
        print(f"unsteady: {test} failed beside the others and passed alone")
    failed = sum(1 for _, code, _ in results if code != 0)
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _just(paths: Sequence[Path], extra: Sequence[str]) -> int:
    """These and nothing else: Solidity tests by forge, all others by pytest."""
    solidity = [each for each in paths if each.name.endswith(".t.sol")]
    python = [each for each in paths if each not in solidity]
    runs = [partial(_call, foundry_binary("forge"), "test", "--match-path", each, env=_PROFILE) for each in solidity]
    if python:
        runs.append(partial(_call, sys.executable, "-m", "pytest", *python, *extra))
    return _both(*runs)


def _call(*argv: str | Path, env: dict[str, str] | None = None) -> int:
    return subprocess.run([str(a) for a in argv], cwd=ROOT, check=False, env={**os.environ, **(env or {})}).returncode


def _both(*calls: Callable[[], int]) -> int:
    """Run all of them even if one fails, so that one run shows everything."""
    return max([abs(call()) for call in calls], default=0)


def _lint(_: Sequence[str]) -> int:
    return _both(lambda: _call("ruff", "check", "."), lambda: _call("ruff", "format", "--check", "."))


def _types(_: Sequence[str]) -> int:
    return _call("mypy")


def _imports(_: Sequence[str]) -> int:
    return _call("lint-imports", "--no-cache")


def _solidity_format(_: Sequence[str]) -> int:
    return _call(foundry_binary("forge"), "fmt", "--check", "contracts", "tests/contracts/forge")


def _forge(_: Sequence[str]) -> int:
    without_gas = ("--no-match-contract", "^Gas")  # a stage of its own, on the pipeline that is deployed
    return _call(foundry_binary("forge"), "test", "--no-match-path", GENERATED_FIRST, *without_gas, env=_PROFILE)


def _gas(_: Sequence[str]) -> int:
    return _call(ROOT / "vpm", "bench", "gas")


def _pytest(paths: Sequence[str], workers: str) -> Callable[[Sequence[str]], int]:
    def run(extra: Sequence[str]) -> int:
        present = [p for p in paths if (ROOT / p).exists()]
        return _call(
            sys.executable, "-m", "pytest", "-n", workers, "--dist", "loadfile", "--durations", "12", *present, *extra
        )

    return run


def _steadied(paths: Sequence[str], workers: str) -> Callable[[Sequence[str]], int]:
    """For tests with real processes: the few that fail are run once more, alone."""
    once = _pytest(paths, workers)

    def run(extra: Sequence[str]) -> int:
        memory = ROOT / ".vpm" / "build" / "pytest" / paths[0].replace("/", "-")
        shutil.rmtree(memory, ignore_errors=True)
        remembering = ("-o", f"cache_dir={memory}", *extra)
        code = once(remembering)
        if code != 1:  # 1: tests failed; anything else is no verdict on a test
            return code
        failed = sorted(json.loads((memory / "v" / "cache" / "lastfailed").read_text()))
        if not 0 < len(failed) <= FEW:
            return code
        print(f"\n--- once more, alone: {', '.join(failed)}", flush=True)
        code = _call(sys.executable, "-m", "pytest", *failed, *extra)
        if code == 0:
            unsteady.extend(failed)
        return code

    return run


def _browser(extra: Sequence[str]) -> int:
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        print("no Chromium on this machine: the browser tests did not run")
        return 1 if os.environ.get("CI") else 0
    return _steadied(["tests/browser"], "0")(extra)


def _requirements(_: Sequence[str]) -> int:
    return _call(sys.executable, "-m", "tests.requirements", "check")


STAGES = [
    Stage("lint", "ruff: style, order, likely mistakes", _lint),
    Stage("types", "mypy --strict on our packages", _types),
    Stage("imports", "one-way imports", _imports),
    Stage("format", "Solidity format", _solidity_format),
    Stage("forge", "every contract test: units, fuzz, invariants", _forge),
    Stage("gas", "no call costs more than it may", _gas),
    Stage("unit", "Python units and properties", _pytest(["tests/unit", "tests/guards", "tests/requirements"], "2")),
    Stage("contracts", "contracts against the models and mirrors", _pytest(["tests/contracts"], "0")),
    Stage("integration", "real PostgreSQL and local chains", _steadied(["tests/integration", "tests/faults"], "2")),
    Stage("specs", "every requirement of a finished surface has a test", _requirements),
]
if (ROOT / "tests" / "browser").exists():
    STAGES.insert(-1, Stage("browser", "pages in a real Chromium", _browser))

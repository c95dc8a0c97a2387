"""`./vpm test`: runs every check of the project and prints one summary. If a stage cannot run on this machine, that is
a failure only in CI (CI=true). docs/decisions/0017 explains ordinary and thorough runs; 0006 explains why a failed test
runs again.

Three queues run concurrently. The first is one pytest run for the tests of all chosen stages; each worker process takes
one file at a time. The second runs the browser tests. The third runs all other programs, one after another at low
priority, because tests depend on real time. The last two queues print the output of each part when that part ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from core.paths import REPOSITORY
from scripts._local.packages import foundry_binary
from scripts._vpm.forge import NICE, PROFILE, compiling, forge, run

# Replays of files that a Python test generates first; those tests run forge themselves.
GENERATED_FIRST = "tests/contracts/forge/{history/Histories.t.sol,agent/Vectors.t.sol,feeds/Cases.t.sol}"


ORDINARY = ("-m", "not thorough")
# A quarter of the runs of a property in foundry.toml, which a thorough run uses.
ORDINARY_FORGE = {"FOUNDRY_FUZZ_RUNS": "64", "FOUNDRY_INVARIANT_RUNS": "5"}
QUICK = ("lint", "types", "imports", "unit")  # stages without a chain, database or compiler

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CORES = os.cpu_count() or 1
PROOFS = REPOSITORY / "tests" / "contracts" / "proofs"


Output = IO[str] | None
"""Where programs write: to the screen (None), or to a file that is printed later."""


@dataclass(frozen=True)
class Stage:
    """A stage of `vpm test`: a program to run, or folders of tests.

    io_bound: the stage's tests mostly wait for real processes.
    alone: the stage's tests cannot share a process with other tests, so they run separately.
    """

    name: str
    what: str
    run: Callable[[Output], int] | None = None
    folders: tuple[str, ...] = ()
    io_bound: bool = False
    alone: bool = False


@dataclass(frozen=True)
class StageResult:
    stage: Stage
    code: int
    seconds: float


def main(argv: list[str]) -> int:
    rest = argv[argv.index("--") + 1 :] if "--" in argv else []
    own = argv[: argv.index("--")] if "--" in argv else argv
    parser = argparse.ArgumentParser(prog="vpm test", add_help=False)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--only", action="append", choices=[s.name for s in STAGES])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args(own)
    if args.paths and (args.only or args.quick or args.thorough):
        parser.error("give either paths or stages: the given paths are run whole")
    if args.paths:
        return _run_paths(args.paths, rest)
    if args.list:
        for stage in STAGES:
            print(f"{stage.name:<12} {stage.what}")
        return 0
    names = set(args.only or ()) | (set(QUICK) if args.quick else set())
    chosen = [s for s in STAGES if not names or s.name in names]
    ordinary = not (names or args.thorough or os.environ.get("VPM_TEST_LONG") == "1")
    if ordinary:
        os.environ.update(ORDINARY_FORGE)
    start = time.monotonic()
    results = _run(chosen, [*(ORDINARY if ordinary else ()), *rest])
    print("\n=== summary")
    for one in results:
        print(f"{'ok    ' if one.code == 0 else 'FAILED'} {one.seconds:7.1f} s  {one.stage.name}: {one.stage.what}")
    failed = sum(one.code != 0 for one in results)
    took = time.monotonic() - start
    print(f"stages: {len(results) - failed} passed, {failed} failed in {took // 60:.0f} min {took % 60:.0f} s")
    if ordinary:
        print("this was an ordinary run; CI runs ./vpm test --thorough")
    return 1 if failed else 0


def _run(chosen: Sequence[Stage], extra: Sequence[str]) -> list[StageResult]:
    """Run tests, browser tests and other programs in three concurrent queues. Only the first queue prints directly to
    the screen."""
    unavailable = [stage for stage in chosen if stage.folders and not _can_run(stage)]
    tests = [stage for stage in chosen if stage.folders and stage not in unavailable]
    together, alone = ([stage for stage in tests if stage.alone == is_alone] for is_alone in (False, True))
    lines = [[_one_run(stages, extra)] for stages in (together, alone) if stages]
    lines += filter(None, [[stage for stage in chosen if not stage.folders]])
    with ThreadPoolExecutor() as threads:
        others = [threads.submit(_line, stages, on_screen=False) for stages in lines[1:]]
        results = [result for stages in lines[:1] for result in _line(stages, on_screen=True)]
    results += [StageResult(stage, 1 if os.environ.get("CI") else 0, 0.0) for stage in unavailable]
    return results + [result for line in others for result in line.result()]


def _one_run(stages: Sequence[Stage], extra: Sequence[str]) -> Stage:
    names = ", ".join(stage.name for stage in stages)
    return Stage(names, "tests", partial(run_tests, stages, extra))


def _line(stages: Sequence[Stage], *, on_screen: bool) -> list[StageResult]:
    """Run stages one after another. If `on_screen`, show their output immediately; otherwise show each stage's output
    when the stage has ended."""
    results = []
    for stage in stages:
        assert stage.run is not None
        start, title = time.monotonic(), f"\n=== {stage.name}: {stage.what}"
        if on_screen:
            print(title, flush=True)
            code = stage.run(None)
        else:
            with TemporaryFile("w+") as output:
                code = stage.run(output)
                output.seek(0)
                print(f"{title}\n{output.read()}=== {stage.name} took {time.monotonic() - start:.1f} s", flush=True)
        results.append(StageResult(stage, code, time.monotonic() - start))
    return results


def _run_paths(paths: Sequence[Path], extra: Sequence[str]) -> int:
    """Run the tests in these paths only: Solidity tests with forge, others with pytest. A folder may contain both."""
    if why := next(filter(None, map(_problem_with, paths)), None):
        print(f"vpm test: {why}", file=sys.stderr)
        return 2
    files = [each for each in paths if each.name.endswith(".t.sol")]
    folders = [each for each in paths if any((REPOSITORY / each).rglob("*.t.sol"))]
    solidity = [*files, *(each / "**" / "*.t.sol" for each in folders)]
    solidity_only = [each for each in folders if not any((REPOSITORY / each).rglob("test_*.py"))]
    python = [each for each in paths if each not in files and each not in solidity_only]
    forge_test = (foundry_binary("forge"), "test", "--match-path")
    runs = [partial(_call, None, *forge_test, each, env=PROFILE) for each in solidity]
    if python:
        runs.append(partial(_call, None, sys.executable, "-m", "pytest", *python, *extra))
    return _run_all(*runs)


def _problem_with(path: Path) -> str | None:
    """Return why a path has no tests to run, or None if it has tests. forge succeeds even if it finds no tests."""
    name = str(path).partition("::")[0]
    place = REPOSITORY / name
    if not place.exists():
        return f"there is no {name} in {REPOSITORY}."
    return "use ./vpm prove to prove theorems." if place.resolve().is_relative_to(PROOFS) else None


def _call(output: Output, *argv: str | Path, env: dict[str, str] | None = None) -> int:
    return run([str(word) for word in argv], {**os.environ, **(env or {})}, output).returncode


def _nice(output: Output, *argv: str | Path, env: dict[str, str] | None = None) -> int:
    """Run a program at low priority, because tests depend on real time."""
    return _call(output, *NICE, *argv, env=env)


def _run_all(*calls: Callable[[], int]) -> int:
    """Run all calls, even if one of them fails, so that one run shows every failure."""
    return max([abs(call()) for call in calls], default=0)


def _lint(output: Output) -> int:
    return _run_all(
        lambda: _nice(output, "ruff", "check", "."), lambda: _nice(output, "ruff", "format", "--check", ".")
    )


def _types(output: Output) -> int:
    """Check the types in our code, and in each client library with the library's own settings."""
    python, typescript = (REPOSITORY / "api" / "clients" / name for name in ("python", "typescript"))
    # mypy's cache depends on the settings: with a shared cache each run would discard the other's.
    client_cache, src = ("--cache-dir", REPOSITORY / ".mypy_cache" / "client"), {"MYPYPATH": str(python / "src")}
    return _run_all(
        lambda: _mypy(output),
        lambda: _nice(output, "mypy", *client_cache, "--config-file", python / "pyproject.toml", env=src),
        lambda: _nice(output, REPOSITORY / "node_modules" / ".bin" / "tsc", "--noEmit", "-p", typescript),
    )


def _mypy(output: Output) -> int:
    code = _nice(output, "mypy", "--num-workers", str(CORES))
    # A mypy worker that needs over three seconds to start, as it may while tests run, ends the run with code 2.
    return _nice(output, "mypy") if code == 2 else code


def _imports(output: Output) -> int:
    return _nice(output, "lint-imports", "--no-cache")


def _solidity_format(output: Output) -> int:
    ours = ("contracts", "tests/contracts/forge", "tests/contracts/proofs")
    return _nice(output, foundry_binary("forge"), "fmt", "--check", *ours)


def _forge(output: Output) -> int:
    no_gas = ("--no-match-contract", "^Gas")  # a separate stage, with the build that is deployed
    with compiling():  # Python tests wait for this build and use it
        built = forge("build", output=output)
    return built.returncode or forge("test", "--no-match-path", GENERATED_FIRST, *no_gas, output=output).returncode


def _gas(output: Output) -> int:
    return _nice(output, REPOSITORY / "vpm", "bench", "gas")


def run_tests(stages: Sequence[Stage], extra: Sequence[str], output: Output) -> int:
    folders = [folder for stage in stages for folder in stage.folders]
    count = workers(stages)
    if count > CORES and not (REPOSITORY / "tests" / "__pycache__").exists():
        compile_tests(folders)
    spread = ("-n", str(count), "--dist", "loadfile", "--max-worker-restart", "0", "-p", "no:cacheprovider")
    return _call(output, sys.executable, "-m", "pytest", *spread, "--durations", "12", *folders, *extra)


def compile_tests(folders: Sequence[str]) -> None:
    """In a new checkout, compile the Python modules that the tests import, so that each module is compiled once rather
    than by every worker. Import errors are left for the test run to report."""
    collect = (sys.executable, "-m", "pytest", "--collect-only", "-q", *folders)
    run(collect, dict(os.environ), subprocess.DEVNULL)


def workers(stages: Sequence[Stage]) -> int:
    """Return the number of test processes: one per core, or more if the tests mostly wait for blocks and timeouts."""
    if all(stage.alone for stage in stages):
        return 1  # each has a browser and a whole service: a second process would slow down the other tests
    return 2 * CORES + 1 if any(stage.io_bound for stage in stages) else CORES


def _can_run(stage: Stage) -> bool:
    if stage.name != "browser" or any(map(shutil.which, CHROMIUM)):
        return True
    print("no Chromium on this machine: the browser tests did not run")
    return False


STAGES = [
    Stage("lint", "ruff: style, order, likely mistakes", _lint),
    Stage("types", "mypy --strict on our packages, tsc --strict on the TypeScript client", _types),
    Stage("imports", "one-way imports", _imports),
    Stage("format", "Solidity format", _solidity_format),
    Stage("forge", "contract tests: unit, fuzz, invariants", _forge),
    Stage("gas", "no call costs more gas than its limit", _gas),
    Stage("unit", "Python units and properties", folders=("tests/unit",)),
    Stage("studies", "promises of the mechanisms, over many random histories", folders=("tests/studies",)),
    Stage("contracts", "contracts against the models and mirrors", folders=("tests/contracts",), io_bound=True),
    Stage(
        "integration",
        "real PostgreSQL and local chains",
        folders=("tests/integration", "tests/faults", "tests/simulator"),
        io_bound=True,
    ),
    Stage("browser", "pages in a real Chromium", folders=("tests/browser",), io_bound=True, alone=True),
]

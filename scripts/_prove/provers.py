"""Reads the theorems from the tags above each `check_` function and at the head of each lemma, and proves them.

`@custom:theorem` is the name. `@custom:bounds` states the range of values and the assumptions; a contract's bounds hold
for all its theorems. `@custom:slow` is a time limit in seconds, for theorems outside the quick run. `@custom:loops`
limits the iterations of a loop. Each `@custom:guard` quotes code that occurs once in a contract, and its replacement.
With the replacement, the theorem must be refuted.

Halmos proves the theorems about compiled contracts, and Z3 proves the lemmas over the integers. Both run in a separate
environment with exactly the packages of `locks/prove.txt`, because Halmos pins different library versions than the
product.

Halmos runs each theorem symbolically, for all inputs. Its exit code for a theorem says more than its summary: if every
path reverts, or if loops were cut off, nothing was proved, and the theorem does not count as proved.

Lemmas are statements about 256-bit products and quotients that Halmos cannot decide but that are simple over the
integers. A file in `lemmas/` states premises, shows with an example that they are consistent, and then asks for a
counterexample. Z3 must therefore print `sat` and then `unsat`. A separate theorem on the compiled code shows that the
contracts compute what the lemma is about.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY
from scripts._local.packages import foundry_binary
from scripts._vpm import bootstrap
from scripts._vpm.forge import NICE

PROOFS = Path("tests/contracts/proofs")
_COMMENTED = re.compile(r"((?:^ *///.*\n)*)^ *(contract|function) (\w+)", re.MULTILINE)
_TAG = re.compile(r"@custom:([a-z]+) ([^@]*)")
_GUARD = re.compile(r"(\S+) `(.+)` becomes `(.*)`")


@dataclass(frozen=True, slots=True)
class Theorem:
    """A statement about the contracts, and its proof. The proof is either a `check_` function, which Halmos runs on the
    compiled contracts, or a lemma, which Z3 decides over the integers. For a lemma, `function` is empty."""

    name: str
    statement: str
    source: Path
    contract: str
    function: str
    bounds: str
    seconds: int
    quick: bool
    loops: int
    guards: tuple[Guard, ...]

    @property
    def is_lemma(self) -> bool:
        return not self.function

    @property
    def proof(self) -> str:
        return self.source.name if self.is_lemma else f"{self.contract}.{self.function}"


@dataclass(frozen=True, slots=True)
class Guard:
    source: Path
    code: str
    without: str


def read_theorems() -> list[Theorem]:
    """Return all theorems, sorted by name. Raise ValueError if a proof has no name."""
    folder = REPOSITORY / PROOFS
    found = [each for file in folder.rglob("*.t.sol") for each in _theorems_in(file)]
    found += [_theorem(file, "", "", _head(file), ()) for file in folder.rglob("*.smt2")]
    return sorted(found, key=lambda each: each.name)


def _theorems_in(file: Path) -> Iterator[Theorem]:
    contract, common = "", []
    for comment, kind, name in _COMMENTED.findall(file.read_text()):
        text = " ".join(line.strip().removeprefix("///").strip() for line in comment.splitlines())
        if kind == "contract":
            contract, common = name, _tags(text)["bounds"]
        elif name.startswith("check_"):
            yield _theorem(file, contract, name, text, common)


def _head(lemma: Path) -> str:
    return lemma.read_text().partition("\n;\n")[0].replace("\n; ", " ").removeprefix("; ")


def _theorem(file: Path, contract: str, function: str, text: str, common: Sequence[str]) -> Theorem:
    tags = _tags(text)
    if not tags["theorem"]:
        raise ValueError(f"{file.name}: {function or 'the lemma'} has no @custom:theorem with its name.")
    slow = tags["slow"]
    return Theorem(
        tags["theorem"][0],
        text.partition("@")[0].strip(),
        file.relative_to(REPOSITORY),
        contract,
        function,
        bounds="; ".join([*common, *tags["bounds"]]) or "all values",
        seconds=int(slow[0]) if slow else 60,
        quick=not slow,
        loops=int(tags["loops"][0]) if tags["loops"] else 2,
        guards=tuple(_guard(each) for each in tags["guard"]),
    )


def _tags(text: str) -> dict[str, list[str]]:
    tags = defaultdict(list)
    for name, value in _TAG.findall(text):
        tags[name].append(value.strip())
    return tags


def _guard(text: str) -> Guard:
    parts = _GUARD.fullmatch(text)
    if parts is None:
        raise ValueError(f"A guard has the form `FILE `CODE` becomes `OTHER``, not {text!r}.")
    return Guard(Path(parts[1]), parts[2], parts[3])


HOME = bootstrap.ENV / "prove"
BUILD = REPOSITORY / ".vpm" / "build" / "prove"
# The solver's time limit for deciding whether a branch can be taken. When it runs out Halmos follows the branch: with
# its default of a millisecond, a busy machine makes it unroll a loop that ends and call the theorem bounded.
BRANCH_PATIENCE = "2s"
OUT = ".vpm/build/prove/out"
PROVED, REFUTED = "proved", "refuted"
_HALMOS_RESULTS = {0: PROVED, 1: REFUTED, 2: "timed out", 3: "stuck", 4: "vacuous: every path reverts", 5: "error"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_Z3_RESULTS = {"sat unsat": PROVED, "sat sat": REFUTED, "sat unknown": "unknown", "unsat unsat": "vacuous"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of proving a theorem. If the theorem was not proved, `why` is the prover's report, with any
    counterexample."""

    theorem: Theorem
    result: str
    seconds: float
    why: str = ""

    @property
    def proved(self) -> bool:
        return self.result == PROVED


class BuildFailed(Exception):
    """The theorems do not compile. The message is the end of forge's output."""


def prepare() -> None:
    with bootstrap.setup_lock():
        bootstrap.python_environment(HOME, bootstrap.LOCKS / "prove.txt", "the provers")


def environment() -> dict[str, str]:
    """Return a prover's environment variables. PATH has the prover's programs and ours, and HOME is a folder for its
    caches."""
    home = BUILD / "home"
    home.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    own = str(HOME / "bin")
    path = os.pathsep.join([own, str(foundry_binary("forge").parent), os.environ.get("PATH", os.defpath)])
    return {**inherited, "PATH": path, "HOME": str(home), "FOUNDRY_PROFILE": "prove", "NO_COLOR": "1"}


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
        raise BuildFailed((built.stdout + built.stderr)[-2000:])


def prove(theorems: Sequence[Theorem], project: Path) -> list[Outcome]:
    (contract,) = {theorem.contract for theorem in theorems}
    names = "|".join(theorem.function for theorem in theorems)
    seconds = sum(theorem.seconds for theorem in theorems)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [*NICE, "halmos", "--root", str(project), "--forge-build-out", OUT, "--no-status"]
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
        output = _ANSI.sub("", ran.stdout + ran.stderr)
        if not report.exists():
            return [Outcome(theorem, "error", 0.0, output[-2000:]) for theorem in theorems]
        (results,) = json.loads(report.read_text())["test_results"].values() or ([],)
    by_name = {result["name"].partition("(")[0]: result for result in results}
    return [_outcome(theorem, by_name.get(theorem.function), output) for theorem in theorems]


def _outcome(theorem: Theorem, result: dict[str, Any] | None, output: str) -> Outcome:
    if result is None:
        return Outcome(theorem, "error", 0.0, f"there is no {theorem.proof}\n{output[-2000:]}")
    name, seconds = _HALMOS_RESULTS.get(result["exitcode"], "error"), result["time"][0]
    if name == PROVED and result["num_bounded_loops"]:
        return Outcome(theorem, f"bounded: a loop runs more than {theorem.loops} times", seconds)
    return Outcome(theorem, name, seconds, "" if name == PROVED else output[-2000:])


def prove_lemma(theorem: Theorem) -> Outcome:
    started = time.monotonic()
    command = [*NICE, "z3", f"-T:{theorem.seconds}", str(REPOSITORY / theorem.source)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    output = " ".join(ran.stdout.split())
    result = _Z3_RESULTS.get(output, "error")
    return Outcome(theorem, result, time.monotonic() - started, "" if result == PROVED else output)


# ---------------------------------------------------------------- without guards


_FILES = (
    "foundry.toml",
    "remappings.txt",
    "tests/contracts/foundry.base.toml",
    "tests/contracts/forge/Base.sol",
)


class Copy:
    """A copy of the project. It is kept between runs, so that forge need not compile everything again."""

    def __init__(self) -> None:
        self.folder = BUILD / "guards"
        for part in ("contracts", str(PROOFS)):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            shutil.copytree(REPOSITORY / part, self.folder / part)
        for name in _FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.folder / name)
        for name in ("node_modules", "scripts"):
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).symlink_to(REPOSITORY / name)

    def prove_without(self, guard: Guard, theorem: Theorem, patience: int = 1) -> Outcome:
        """Prove the theorem without the guard. The time limit is `patience` times the usual limit."""
        theorem = replace(theorem, seconds=patience * theorem.seconds)
        source = self.folder / guard.source
        text = source.read_text()
        try:
            source.write_text(text.replace(guard.code, guard.without))
            self._keep_only(theorem.source)
            build(self.folder)
            return prove([theorem], self.folder)[0]
        except BuildFailed as error:
            return Outcome(theorem, "does not compile", 0.0, str(error))
        finally:
            source.write_text(text)

    def _keep_only(self, source: Path) -> None:
        """Remove the other theorem contracts from the copy, because Halmos would compile them as well."""
        for each in (self.folder / PROOFS).rglob("*.t.sol"):
            each.unlink()
        shutil.copy2(REPOSITORY / source, self.folder / source)

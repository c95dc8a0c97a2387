"""Reads the theorems from the tags above each `check_` function and at the head of each lemma.

`@custom:theorem` is the name and `@custom:bounds` the range of values and the assumptions; a contract's bounds hold for
all its theorems. `@custom:slow` is a time limit in seconds, for theorems outside the quick run. `@custom:loops` limits
the iterations of a loop. Each `@custom:guard` quotes code that occurs once in a contract, and its replacement. With the
replacement, the theorem has to be refuted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.paths import REPOSITORY

PROOFS = Path("tests/contracts/proofs")
_COMMENTED = re.compile(r"((?:^ *///.*\n)*)^ *(contract|function) (\w+)", re.MULTILINE)
_TAG = re.compile(r"@custom:([a-z]+) ([^@]*)")
_GUARD = re.compile(r"(\S+) `(.+)` becomes `(.*)`")


@dataclass(frozen=True, slots=True)
class Theorem:
    """A statement about the contracts and its proof. The proof is a `check_` function, which Halmos runs on the
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
    """Code of a contract, and its replacement. With the replacement, the theorem has to be refuted."""

    source: Path
    code: str
    without: str


def read_theorems() -> list[Theorem]:
    """Return all theorems, sorted by name. Raise ValueError for a proof without a name."""
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
    """Return the first paragraph of the comment at the beginning of a lemma."""
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

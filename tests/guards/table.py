"""docs/guards.md: every guard, where it stands, and which tests fail without it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from core.paths import REPOSITORY
from tests.guards.guard import Guard

PAGE = REPOSITORY / "docs" / "guards.md"

_HEAD = """\
# Guards

Code that only matters when something goes wrong, and the tests that fail when it is taken away. `./vpm mutate` takes
out one at a time in a copy and fails on a survivor; `--part K/N` shares the work, and a run that was stopped goes on
where it was. A test of every run holds this table to the sources: each guard stands where it says, each test exists.

This page is written by `./vpm mutate --table`.
"""


def page(guards: Sequence[Guard]) -> str:
    parts = [_HEAD]
    ordered = sorted(guards, key=lambda guard: guard.source.split("/")[0])
    for folder, members in groupby(ordered, key=lambda guard: guard.source.split("/")[0]):
        rows = [f"| {_cell(guard.stops)} | `{guard.source}` | {_tests(guard)} |" for guard in members]
        parts.append(f"## {folder}\n\n| Without it | Where | Its tests |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _tests(guard: Guard) -> str:
    return ", ".join(f"`{test.rpartition('::')[2].rpartition('/')[2]}`" for test in guard.tests)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

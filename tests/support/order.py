"""The longest files first: a parallel run then ends with short ones, and no worker is left alone with a long one.

`python -m tests.support.order` rewrites tests/seconds.json from what the last `./vpm test` measured. A file that is not
in it yet counts as a long one, which is the cheaper mistake.
"""

from __future__ import annotations

import json
import sys

import pytest

from core.paths import REPOSITORY

SECONDS = REPOSITORY / "tests" / "seconds.json"
UNKNOWN = 60.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):  # one process: files in the order in which they were named
        return
    seconds: dict[str, float] = json.loads(SECONDS.read_text())
    position = {file: number for number, file in enumerate(dict.fromkeys(item.path for item in items))}

    def place(item: pytest.Item) -> tuple[float, int]:
        name = item.path.relative_to(REPOSITORY).as_posix() if item.path.is_relative_to(REPOSITORY) else ""
        return -seconds.get(name, UNKNOWN), position[item.path]

    items.sort(key=place)  # stable: within a file nothing moves


def rewrite() -> int:
    from scripts._vpm.checks import REPORTS, seconds_of_files

    measured: dict[str, float] = {}
    for report in REPORTS.glob("*.xml"):
        measured |= seconds_of_files(report)
    if not measured:
        print(f"there is nothing in {REPORTS}: run ./vpm test first", file=sys.stderr)
        return 1
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    known |= {f"{file}.py": seconds for file, seconds in measured.items()}
    there = {file: round(seconds, 1) for file, seconds in sorted(known.items()) if (REPOSITORY / file).exists()}
    SECONDS.write_text(json.dumps(there, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(rewrite())

"""`./vpm bench all`, and any benchmark with `--record`: runs them, keeps their ratios, and writes docs/performance.md.

Each runs as a process of its own, so that none measures what another left behind. A section of the page holds the
benchmark's own description, its table and the ratios of its last runs, so none can say something else than the
benchmark does. What somebody wrote below them stays when the section is written again.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from core.paths import REPOSITORY
from scripts._bench import NAMES, ratios
from scripts._bench.ratios import RecordedRun

PAGE = REPOSITORY / "docs" / "performance.md"
RECORD = REPOSITORY / "docs" / "performance.json"
PASSED, MISSED = "every target was met", "**a target was missed**"
REMARKS = "<!-- Remarks: what stands below is written by hand, and stays. -->"

_HEAD = """\
# Performance

What `./vpm bench all` finds, and `./vpm bench NAME --record`. Client, nodes, database and service share the machine
that a section names.

**How to read it.** A figure of one machine says little about another, and two runs on a shared one differ by a third.
So every benchmark runs a baseline beside it, in turns, in the same run: the least that could do the job. The ratio is
what holds elsewhere, and what has a target; a figure in milliseconds has one only where a person or an agent would
notice. Compare ratios, never figures of two runs: those of the last ten runs stand below each table, as a line from
the oldest to the newest, and in [performance.json](performance.json). Nothing here is part of `./vpm test`, where a
busy machine would fail good code, except gas, which is exact.

To repeat one: `./vpm bench NAME`, on an otherwise idle machine; `--json FILE` keeps the figures, `--record` writes its
section here.
"""


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """What one benchmark printed, whether it met its targets, and its ratios to its baselines."""

    name: str
    printed: str
    met: bool
    ratios: Mapping[str, float] = field(default_factory=dict)


def main(json_path: Path | None = None, *, names: Sequence[str] = NAMES) -> int:
    good, figures = True, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            kept = Path(folder) / f"{name}.json"
            print(f"\n=== {name}", flush=True)
            outcome = _run(name, kept)
            print(outcome.printed, flush=True)
            good &= outcome.met
            if kept.exists():
                figures[name] = json.loads(kept.read_text())
                record(outcome, datetime.now(UTC).date().isoformat(), machine())
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if good else 1


def _run(name: str, kept: Path) -> BenchOutcome:
    argv = [sys.executable, "-m", "scripts._vpm.cli", "bench", name, "--json", str(kept)]
    done = subprocess.run(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")
    measured = json.loads(kept.read_text()).get("ratios", {}) if kept.exists() else {}
    return BenchOutcome(name, printed, done.returncode == 0, measured)


def record(outcome: BenchOutcome, day: str, where: str, *, page: Path = PAGE, kept: Path = RECORD) -> None:
    """Keeps a run's ratios and writes the benchmark's section, at its place, with the remarks it had."""
    runs = ratios.add(kept, outcome.name, RecordedRun(day, outcome.met, dict(outcome.ratios)))
    _, sections = parts_of(page.read_text() if page.exists() else "")
    remarks = sections.get(outcome.name, "").partition(REMARKS)[2].strip("\n")
    sections[outcome.name] = section(outcome, day, where, runs, remarks)
    ordered = [sections[name] for name in NAMES if name in sections]
    page.write_text("\n".join([_HEAD, *ordered]))


def parts_of(page: str) -> tuple[str, dict[str, str]]:
    """What stands above the first benchmark, and each one's section with its heading."""
    head, *rest = ("\n" + page).split("\n## ")
    return head.strip("\n"), {each.partition("\n")[0].strip(): f"## {each.strip()}\n" for each in rest}


def section(outcome: BenchOutcome, day: str, where: str, runs: Sequence[RecordedRun], remarks: str = "") -> str:
    title, _, body = described(outcome.name).partition("\n\n")
    about = title.partition(": ")[2]
    written = [
        f"## {outcome.name}\n\n{about[0].upper()}{about[1:]}\n\n{body.strip()}\n",
        f"On {day}, on {where}, {PASSED if outcome.met else MISSED}.\n",
        f"```text\n{outcome.printed}\n```\n",
        f"{ratios.table(runs)}\n",
        f"{REMARKS}\n",
    ]
    return "\n".join([*written, *([f"{remarks}\n"] if remarks else [])])


def described(name: str) -> str:
    """A benchmark's docstring: a title line `./vpm bench NAME: what`, and paragraphs."""
    text = ast.get_docstring(ast.parse((REPOSITORY / "scripts" / "_bench" / f"{name}.py").read_text()))
    assert text is not None
    return text


def machine() -> str:
    """Processors and versions: what a reader needs to tell their machine from this one."""
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, {platform.system()}"
    )

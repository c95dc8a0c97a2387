"""`./vpm bench all`: every benchmark, one after the other, and docs/performance.md written from what they printed.

Each runs as a process of its own, so that none measures what another left behind. The page holds each benchmark's own
description and its table, so neither can say something else than the benchmark does.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
NAMES = ("index", "relay", "api", "growth", "trade", "events", "cup", "pages", "provider", "gas")
PASSED, MISSED = "every target was met", "**a target was missed**"

_HEAD = """\
# Performance

What `./vpm bench all` found on {day}, on {machine}. Client, nodes, database and service shared that machine.

**How to read it.** A figure of one machine says little about another, and two runs on a shared one differ by a third.
So every benchmark runs a baseline beside it, in turns, in the same run: the least that could do the job. The ratio is
what holds elsewhere, and what has a target; a figure in milliseconds has one only where a person or an agent would
notice. Compare ratios, never figures of two runs. Nothing here is part of `./vpm test`, where a busy machine would fail
good code, except gas, which is exact.

To repeat one: `./vpm bench NAME`, on an otherwise idle machine; `--json FILE` keeps the figures.
"""


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """What one benchmark printed, and whether it met its targets."""

    name: str
    printed: str
    met: bool


def main(json_path: Path | None = None, *, names: Sequence[str] = NAMES) -> int:
    outcomes, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            kept = Path(folder) / f"{name}.json"
            print(f"\n=== {name}", flush=True)
            outcomes.append(_run(name, kept))
            print(outcomes[-1].printed, flush=True)
            if kept.exists():
                figures[name] = json.loads(kept.read_text())
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if tuple(names) == NAMES:
        PAGE.write_text(page(outcomes, datetime.now(UTC).date().isoformat(), machine()))
    return 0 if all(each.met for each in outcomes) else 1


def _run(name: str, kept: Path) -> BenchOutcome:
    argv = [sys.executable, "-m", "scripts._vpm.cli", "bench", name, "--json", str(kept)]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines()).strip("\n")
    return BenchOutcome(name, printed, done.returncode == 0)


def page(outcomes: Sequence[BenchOutcome], day: str, where: str) -> str:
    parts = [_HEAD.format(day=day, machine=where)]
    for each in outcomes:
        title, _, body = described(each.name).partition("\n\n")
        about = title.partition(": ")[2]
        parts.append(f"## {each.name}\n\n{about[0].upper()}{about[1:]}\n\n{body.strip()}\n")
        parts.append(f"In this run {PASSED if each.met else MISSED}.\n\n```text\n{each.printed}\n```\n")
    return "\n".join(parts)


def described(name: str) -> str:
    """A benchmark's docstring: a title line `./vpm bench NAME: what`, and paragraphs."""
    text = ast.get_docstring(ast.parse((ROOT / "scripts" / "_bench" / f"{name}.py").read_text()))
    assert text is not None
    return text


def machine() -> str:
    """Processors and versions: what a reader needs to tell their machine from this one."""
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, {platform.system()}"
    )

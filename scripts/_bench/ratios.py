"""The ratios of each benchmark's last ten runs: docs/performance.json, and the lines of docs/performance.md made of it.

A ratio is of what ours did to what the baseline of the same run did, so it may be compared with that of another day or
another machine; the figures it is made of may not, and are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

KEPT_RUNS = 10
STEPS = "▁▂▃▄▅▆▇█"
# A line is at least this share of its highest value high: the noise of a machine does not look like a change.
MIN_HEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What is kept of one run of a benchmark."""

    day: str
    met: bool
    ratios: Mapping[str, float]


def read(path: Path) -> dict[str, list[RecordedRun]]:
    """The runs of each benchmark, the oldest first; none where nothing was recorded yet."""
    if not path.exists():
        return {}
    return {name: [RecordedRun(**each) for each in runs] for name, runs in json.loads(path.read_text()).items()}


def add(path: Path, name: str, run: RecordedRun) -> list[RecordedRun]:
    """Records a run, lets go of the eleventh, and returns what is kept of this benchmark."""
    if not run.ratios:
        raise ValueError(f"vpm bench {name} told no ratio: there is nothing to compare with its next run")
    runs = read(path)
    run = replace(run, ratios={what: round(value, 4) for what, value in run.ratios.items()})
    runs[name] = [*runs.get(name, []), run][-KEPT_RUNS:]
    # A run a line: two that were recorded apart are merged by git, and read in a diff.
    parts = []
    for each in sorted(runs):
        lines = ",\n".join(f"    {json.dumps(asdict(one))}" for one in runs[each])
        parts.append(f"  {json.dumps(each)}: [\n{lines}\n  ]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return runs[name]


def table(runs: Sequence[RecordedRun]) -> str:
    """A line for each ratio of the newest run, in Markdown; a run that did not have it leaves a gap."""
    days = f"{runs[0].day} to {runs[-1].day}" if len(runs) > 1 else runs[0].day
    counted = f"last {len(runs)} runs" if len(runs) > 1 else "only run"
    rows = [f"| The {counted}, {days} | | least | most | newest |", "|---|---|---:|---:|---:|"]
    for name, newest in runs[-1].ratios.items():
        values = [run.ratios.get(name) for run in runs]
        there = [value for value in values if value is not None]
        rows.append(f"| {name} | {line(values)} | {min(there):.2f} | {max(there):.2f} | {newest:.2f} |")
    return "\n".join(rows)


def line(values: Sequence[float | None]) -> str:
    """The values as a line of steps, the oldest first."""
    there = [value for value in values if value is not None]
    low, high = min(there), max(there)
    height = max(high - low, MIN_HEIGHT * abs(high)) or 1.0
    base = (high + low - height) / 2  # what moves little moves in the middle
    top = len(STEPS) - 1
    return "".join("·" if value is None else STEPS[round(round((value - base) / height * top, 6))] for value in values)

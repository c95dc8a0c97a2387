"""What a program and all that it started take: processor time and memory, from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """What something took: seconds by the clock, seconds of processors, megabytes."""

    seconds: float = 0.0
    processor: float = 0.0
    memory: float = 0.0


def tree(root: int) -> Iterator[int]:
    """The process and all below it that are there now."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        yield pid


def processor_seconds(root: int) -> float:
    """What a process and all below it have used so far, with those of them that have ended and were waited for."""
    used = 0
    for pid in tree(root):
        with suppress(OSError):
            used += sum(map(int, _stat(pid)[11:15]))
    return used / TICKS


def own_processor_seconds(pid: int) -> float:
    """What one process has used so far, in user and system."""
    return sum(map(int, _stat(pid)[11:13])) / TICKS


def memory_mb(root: int) -> dict[str, float]:
    """Megabytes of a process and all below it, by what it is; a page that several share counts for each in part."""
    by_name: dict[str, float] = defaultdict(float)
    for pid in tree(root):
        with suppress(OSError):
            by_name[_name(pid)] += _megabytes(pid, "smaps_rollup", "Pss:")
    return dict(by_name)


def resident_mb(pid: int) -> float:
    """What one process holds in memory."""
    return _megabytes(pid, "status", "VmRSS:")


def _megabytes(pid: int, file: str, label: str) -> float:
    (row,) = [line for line in Path(f"/proc/{pid}/{file}").read_text().splitlines() if line.startswith(label)]
    return int(row.split()[1]) / 1024


def _name(pid: int) -> str:
    """A daemon's by the name it gave itself, another program's by its file's."""
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    if not comm.startswith("python"):
        return comm
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words[words.index("-m") + 1] if "-m" in words else comm


def _stat(pid: int) -> list[str]:
    """The fields after the name, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

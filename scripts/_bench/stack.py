"""`./vpm bench stack`: measures how long a fresh clone takes to show its first screen with all packages cached, how
long a repeated start takes, and how much memory the stack uses a minute later while the demo bets. `--quick` repeats
the start only once and measures the memory immediately."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.paths import REPOSITORY
from scripts._bench.harness import Figure, memory_mb, started
from scripts._local.ports import answers, free_port
from scripts._local.process import SpawnPlan

FIRST_SECONDS, AGAIN_SECONDS, MEMORY_MB = 20.0, 3.0, 600.0
SETTLED_SECONDS = 60
PATIENCE_SECONDS = 1_800


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    times: list[float] = []
    clone, port, last = folder / "checkout", free_port(), 1 if quick else 3
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    for turn in range(last + 1):
        with _up(clone, port, folder / f"{turn}.log") as (pid, seconds):
            times.append(seconds)
            if turn == last:
                time.sleep(0 if quick else SETTLED_SECONDS)
                memory = memory_mb(pid)
    return [
        Figure("first start, s", times[0], most=FIRST_SECONDS),
        Figure("second start, s", statistics.median(times[1:]), most=AGAIN_SECONDS),
        Figure("memory, MB", memory, most=MEMORY_MB),
    ]


@contextmanager
def _up(clone: Path, port: int, log: Path) -> Iterator[tuple[int, float]]:
    """Run `./vpm up`. Yield its process id, and the seconds until its screen is shown and the home page responds."""
    argv = (sys.executable, str(clone / "vpm"), "up", "--port", str(port))
    plan = SpawnPlan("vpm up", argv, env=_bare_environment(), cwd=str(clone), stop_seconds=120)

    def is_up() -> bool:
        return "VPM is up" in log.read_text() and answers(f"http://127.0.0.1:{port}/", 5)

    began = time.perf_counter()
    with started(plan, log, is_up, PATIENCE_SECONDS, "the stack") as running:
        yield running.pid, time.perf_counter() - began


def _bare_environment() -> dict[str, str]:
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "SOLCX_BINARY_PATH", "APE_DATA_FOLDER", "DATABASE_URL")
    env = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("VPM_")}
    path = [part for part in env["PATH"].split(os.pathsep) if not part.startswith(str(REPOSITORY))]
    return {**env, "PATH": os.pathsep.join(path)}

"""`./vpm bench start`: from a fresh clone to the first screen, a second start, and the memory of all that runs.

The checkout is cloned into an empty folder; packages are in the caches of pip, uv and npm, and nothing else is there.
A first start ends when the screen of `./vpm up` says that everything runs and the home page answers. Its baseline is
the bare installing of the same lock files from the same caches, Python's beside npm's. Then the stack is stopped and
started again, in turns with the baseline of that: PostgreSQL on the same data and two anvils on the same chains, begun
at once, until each answers. The demo bets meanwhile. A minute after the last start the memory of every process of the
stack is summed, each page divided among those that share it (PSS).

Targets: 25 s for a first start, 3 s for a second, 700 MB. Processor time is that of all processes that worked on it,
so it hardly depends on what else the machine does; seconds do.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from core.direct import answers
from core.local.anvil import AnvilOptions, anvil_answers, anvil_plan
from core.local.ports import free_port
from core.local.postgres import postgres_answers, prepare_postgres, remove_stale_lock
from core.local.process import RunningProcess, SpawnPlan, start_process
from core.paths import REPOSITORY
from scripts._bench.ground import ground, keep
from scripts._bench.processes import Usage, memory_mb, processor_seconds
from scripts._stack.chains import CHAIN_IDS
from scripts._vpm.bootstrap import NPM, VENV

FIRST_SECONDS, AGAIN_SECONDS, MEMORY_MB = 25.0, 3.0, 700.0
AGAIN_ROUNDS = 3
SETTLED_SECONDS = 60
PATIENCE_SECONDS = 1_800
USED = ("seconds", "processor")
STEP = re.compile(r"✓ (?P<what>.+?) \((?P<seconds>[\d.]+) s\)")


def main(json_path: Path | None) -> int:
    with ground("start") as folder:
        figures = _measure(folder)
    good = _print(figures)
    keep(json_path, {"bench": "start", **figures, "ratios": _ratios(figures)})
    return 0 if good else 1


def _measure(folder: Path) -> dict[str, Any]:
    _bare_install(folder / "caches")  # so that both find everything there
    install = _bare_install(folder / "bare")
    clone = _clone(folder / "checkout")
    port = free_port()
    with _started(clone, port) as first:
        pass
    again, bare = [], []
    for turn in range(AGAIN_ROUNDS):
        bare.append(_bare_start(clone / ".vpm" / "state", folder / f"bare-{turn}"))
        with _started(clone, port) as stack:
            again.append(stack)
            if turn == AGAIN_ROUNDS - 1:
                time.sleep(SETTLED_SECONDS)
                memory = memory_mb(stack.pid)
    return {
        "first": {"seconds": first.seconds, "processor": first.processor, "steps": first.steps},
        "install": {"seconds": install.seconds, "processor": install.processor},
        "again": [{"seconds": each.seconds, "processor": each.processor, "steps": each.steps} for each in again],
        "bare": [{"seconds": each.seconds, "processor": each.processor, "memory_mb": each.memory} for each in bare],
        "memory_mb": memory,
    }


# ---------------------------------------------------------------- ours


@dataclass
class StartedStack:
    """A stack that says it is up: how long that took, the processor time of it, and both for each step."""

    pid: int
    seconds: float = 0.0
    processor: float = 0.0
    steps: list[dict[str, Any]] = field(default_factory=list)


def _clone(place: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(place)], check=True)
    return place


@contextmanager
def _started(clone: Path, port: int) -> Iterator[StartedStack]:
    """`./vpm up`, until its screen is there and the home page answers; stopped when this ends."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(clone / "vpm"), "up", "--port", str(port)],
        cwd=clone,
        env=_bare_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    stack = StartedStack(process.pid)
    late = threading.Timer(PATIENCE_SECONDS, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if step := STEP.search(line):
                used = processor_seconds(process.pid)
                at = time.perf_counter() - began
                stack.steps.append(
                    {"what": step["what"], "seconds": float(step["seconds"]), "at": at, "processor": used}
                )
            if "VPM is up" in line:
                break
        else:
            raise RuntimeError(f"the stack did not come up:\n{''.join(said[-20:])}")
        while not answers(f"http://127.0.0.1:{port}/", 5):
            time.sleep(0.01)
        stack.seconds, stack.processor = time.perf_counter() - began, processor_seconds(process.pid)
        yield stack
    finally:
        late.cancel()
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    """As Ctrl-C does; what it says last is read, so that it never waits for a reader."""
    reader = threading.Thread(target=lambda: process.stdout and process.stdout.read())
    reader.start()
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()  # its parts end with it
        process.wait()
    reader.join()


def _bare_environment() -> dict[str, str]:
    """What a shell has that knows nothing of this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "SOLCX_BINARY_PATH", "APE_DATA_FOLDER", "DATABASE_URL")
    env = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("VPM_")}
    path = [part for part in env["PATH"].split(os.pathsep) if not part.startswith(str(REPOSITORY))]
    return {**env, "PATH": os.pathsep.join(path)}


# ---------------------------------------------------------------- baselines


def _bare_install(place: Path) -> Usage:
    """The packages of both locks, and nothing done with them."""
    place.mkdir()
    for name in ("package.json", "package-lock.json", "requirements.lock"):
        shutil.copy(REPOSITORY / name, place)
    env = _bare_environment()
    with _measured() as usage:
        npm = subprocess.Popen(
            [*NPM, "--omit=dev"],
            cwd=place,
            env=env,
            stdout=subprocess.DEVNULL,
        )
        try:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=place, env=env, check=True)
            python = str(place / "venv" / "bin" / "python")
            install = [str(VENV / "bin" / "uv"), "pip", "install", "-q", "--no-deps", "--require-hashes"]
            argv = [*install, "--python", python, "-r", "requirements.lock"]
            if subprocess.run([*argv, "--offline"], cwd=place, env=env, stderr=subprocess.DEVNULL).returncode:  # noqa: PLW1510
                subprocess.run(argv, cwd=place, env=env, check=True)
        finally:
            if npm.wait() != 0:
                raise RuntimeError("npm ci failed")
    return usage


def _bare_start(state: Path, folder: Path) -> Usage:
    """The database and the chains of a stack that is stopped, until each answers."""
    folder.mkdir()
    server = prepare_postgres(state / "postgres", free_port(), max_connections=200)
    remove_stale_lock(server)
    plans: list[tuple[SpawnPlan, Callable[[], bool]]] = [(server.plan, partial(postgres_answers, server))]
    for name, chain_id in CHAIN_IDS.items():
        saved = shutil.copy(state / "chains" / f"{name}.json", folder)
        options = AnvilOptions(chain_id=chain_id, port=free_port(), block_time_seconds=1, state=Path(saved), accounts=1)
        plans.append((anvil_plan(options), partial(anvil_answers, options)))
    running: list[RunningProcess] = []
    try:
        with _measured() as usage:
            running = [start_process(plan, folder / f"{number}.log") for number, (plan, _) in enumerate(plans)]
            for _, is_up in plans:
                while not is_up():
                    time.sleep(0.01)
        usage.memory = sum(sum(memory_mb(each.pid).values()) for each in running)
        usage.processor += sum(processor_seconds(each.pid) for each in running)
        return usage
    finally:
        for each in running:
            each.stop(30)


@contextmanager
def _measured() -> Iterator[Usage]:
    """Seconds, and the processor time of what ended meanwhile."""
    usage, began, before = Usage(), time.perf_counter(), os.times()
    yield usage
    after = os.times()
    usage.seconds = time.perf_counter() - began
    usage.processor = after.children_user + after.children_system - before.children_user - before.children_system


# ---------------------------------------------------------------- what is told


def _ratios(figures: Mapping[str, Any]) -> dict[str, float]:
    again, bare = _median(figures["again"], "seconds"), _median(figures["bare"], "seconds")
    memory = sum(figures["memory_mb"].values())
    return {
        "first start / bare installing": figures["first"]["seconds"] / figures["install"]["seconds"],
        "second start / bare PostgreSQL and anvils": again / bare,
        "memory / bare PostgreSQL and anvils": memory / _median(figures["bare"], "memory_mb"),
    }


def _median(rows: list[dict[str, Any]], what: str) -> float:
    return float(statistics.median(row[what] for row in rows))


def _print(figures: dict[str, Any]) -> bool:
    ratios = list(_ratios(figures).values())
    first, install = figures["first"], figures["install"]
    memory, bare_memory = sum(figures["memory_mb"].values()), _median(figures["bare"], "memory_mb")
    once = {what: {"bare": _median(figures["bare"], what), "ours": _median(figures["again"], what)} for what in USED}
    rows: list[tuple[str, float | None, float, float, float | None]] = [
        ("first start, s", FIRST_SECONDS, install["seconds"], first["seconds"], ratios[0]),
        ("  of a processor, s", None, install["processor"], first["processor"], None),
        ("second start, s", AGAIN_SECONDS, once["seconds"]["bare"], once["seconds"]["ours"], ratios[1]),
        ("  of a processor, s", None, once["processor"]["bare"], once["processor"]["ours"], None),
        ("memory, MB", MEMORY_MB, bare_memory, memory, ratios[2]),
    ]
    good = True
    print(f"{'':<24}{'target':>8}{'bare':>9}{'ours':>9}{'ratio':>8}")
    for what, target, bare, ours, ratio in rows:
        missed = target is not None and ours > target
        good &= not missed
        shown = ["" if value is None else f"{value:.1f}" for value in (target, bare, ours, ratio)]
        print(f"{what:<24}{shown[0]:>8}{shown[1]:>9}{shown[2]:>9}{shown[3]:>8}{'  MISSED' if missed else ''}")
    _print_steps("First start", first["steps"])
    _print_steps("The last second start", figures["again"][-1]["steps"])
    kinds = sorted(figures["memory_mb"].items(), key=lambda one: -one[1])
    print(f"\nMemory, MB: {', '.join(f'{name} {size:.0f}' for name, size in kinds)}")
    return good


def _print_steps(title: str, steps: list[dict[str, Any]]) -> None:
    """Steps may be under way beside each other; the processor's time of all is told as each ends."""
    print(f"\n{title:<58}{'seconds':>9}{'ended at':>10}{'processor so far':>18}")
    for step in steps:
        print(f"{step['what'][:57]:<58}{step['seconds']:>9.1f}{step['at']:>10.1f}{step['processor']:>18.1f}")

"""`./vpm bench stack`: from a fresh clone to the first screen, a second start, and the memory of all that runs.

Packages are in the caches of pip, uv and npm. A first start ends when the screen of `./vpm up` says that everything
runs and the home page answers; its baseline is installing the same lock files. Then the stack is stopped and started
again, in turns with PostgreSQL on the same data and two anvils on the same chains. A minute after the last start the
memory of every process is summed (PSS), with the demo betting. `--quick`: one second start, and no minute of rest.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from core.direct import answers
from core.paths import REPOSITORY
from scripts._bench.harness import Figure, ground, memory_mb, report
from scripts._local.anvil import AnvilOptions, anvil_answers, anvil_plan
from scripts._local.ports import free_port
from scripts._local.postgres import postgres_answers, prepare_postgres, remove_stale_lock
from scripts._local.process import RunningProcess, SpawnPlan, start_process
from scripts._stack.chains import CHAIN_IDS
from scripts._vpm.bootstrap import NPM, VENV

FIRST_SECONDS, AGAIN_SECONDS, MEMORY_MB = 20.0, 3.0, 600.0
SETTLED_SECONDS = 60
PATIENCE_SECONDS = 1_800


def main(json_path: Path | None, *, quick: bool) -> int:
    again: list[float] = []
    bare: list[tuple[float, float]] = []
    with ground("stack") as folder:
        _bare_install(folder / "caches")  # so that both find everything there
        install = _bare_install(folder / "bare")
        clone, port = folder / "checkout", free_port()
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        with _started(clone, port) as (_, first):
            pass
        rounds = 1 if quick else 3
        for turn in range(rounds):
            bare.append(_bare_start(clone / ".vpm" / "state", folder / f"bare-{turn}"))
            with _started(clone, port) as (pid, seconds):
                again.append(seconds)
                if turn == rounds - 1:
                    time.sleep(0 if quick else SETTLED_SECONDS)
                    memory = memory_mb(pid)
    seconds, megabytes = (statistics.median(each) for each in zip(*bare, strict=True))
    rows = [
        Figure("first start, s", first, install, most=FIRST_SECONDS),
        Figure("second start, s", statistics.median(again), seconds, most=AGAIN_SECONDS),
        Figure("memory, MB", memory, megabytes, most=MEMORY_MB),
    ]
    return report("stack", rows, json_path)


@contextmanager
def _started(clone: Path, port: int) -> Iterator[tuple[int, float]]:
    """Run `./vpm up`: its process id, and the seconds until its screen is there and the home page answers."""
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
    late = threading.Timer(PATIENCE_SECONDS, process.kill)
    late.start()
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "VPM is up" in line:
                break
        else:
            raise RuntimeError(f"the stack did not come up:\n{''.join(said[-20:])}")
        while not answers(f"http://127.0.0.1:{port}/", 5):
            time.sleep(0.01)
        yield process.pid, time.perf_counter() - began
    finally:
        late.cancel()
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    """Stop it as Ctrl-C does; its output is read meanwhile, so that it never waits for a reader."""
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
    """The environment of a shell outside this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "SOLCX_BINARY_PATH", "APE_DATA_FOLDER", "DATABASE_URL")
    env = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("VPM_")}
    path = [part for part in env["PATH"].split(os.pathsep) if not part.startswith(str(REPOSITORY))]
    return {**env, "PATH": os.pathsep.join(path)}


def _bare_install(place: Path) -> float:
    """Install the packages of both locks; the seconds of it."""
    place.mkdir()
    for name in ("package.json", "package-lock.json", "requirements.lock"):
        shutil.copy(REPOSITORY / name, place)
    env, began = _bare_environment(), time.perf_counter()
    npm = subprocess.Popen([*NPM, "--omit=dev"], cwd=place, env=env, stdout=subprocess.DEVNULL)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=place, env=env, check=True)
        python = str(place / "venv" / "bin" / "python")
        install = [str(VENV / "bin" / "uv"), "pip", "install", "-q", "--no-deps", "--require-hashes"]
        argv = [*install, "--python", python, "-r", "requirements.lock"]
        if subprocess.run([*argv, "--offline"], cwd=place, env=env, stderr=subprocess.DEVNULL, check=False).returncode:
            subprocess.run(argv, cwd=place, env=env, check=True)
    finally:
        if npm.wait() != 0:
            raise RuntimeError("npm ci failed")
    return time.perf_counter() - began


def _bare_start(state: Path, folder: Path) -> tuple[float, float]:
    """Start the database and the chains of a stack that is stopped; seconds until each answers, and megabytes."""
    folder.mkdir()
    server = prepare_postgres(state / "postgres", free_port(), max_connections=200)
    remove_stale_lock(server)
    plans: list[tuple[SpawnPlan, Callable[[], bool]]] = [(server.plan, partial(postgres_answers, server))]
    for name, chain_id in CHAIN_IDS.items():
        saved = shutil.copy(state / "chains" / f"{name}.json", folder)
        options = AnvilOptions(chain_id=chain_id, port=free_port(), block_time_seconds=1, state=Path(saved), accounts=1)
        plans.append((anvil_plan(options), partial(anvil_answers, options)))
    running: list[RunningProcess] = []
    began = time.perf_counter()
    try:
        running = [start_process(plan, folder / f"{number}.log") for number, (plan, _) in enumerate(plans)]
        for _, is_up in plans:
            while not is_up():
                time.sleep(0.01)
        return time.perf_counter() - began, sum(memory_mb(each.pid) for each in running)
    finally:
        for each in running:
            each.stop(30)

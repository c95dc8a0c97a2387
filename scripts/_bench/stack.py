"""`./vpm bench stack`: from a fresh clone to the first screen, a second start, and the memory of all that runs.

Packages are in the caches of uv and npm. A start ends when the screen of `./vpm up` says that everything runs and the
home page answers. A minute after the last start the memory of every process is summed (PSS), with the demo betting.
`--quick`: one second start, and no minute of rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.paths import REPOSITORY
from scripts._bench.harness import Figure, ground, memory_mb, report
from scripts._local.direct import answers
from scripts._local.ports import free_port

FIRST_SECONDS, AGAIN_SECONDS, MEMORY_MB = 20.0, 3.0, 600.0
SETTLED_SECONDS = 60
PATIENCE_SECONDS = 1_800


def main(*, quick: bool) -> int:
    again: list[float] = []
    with ground("stack") as folder:
        clone, port, rounds = folder / "checkout", free_port(), 1 if quick else 3
        subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
        with _started(clone, port) as (_, first):
            pass
        for turn in range(rounds):
            with _started(clone, port) as (pid, seconds):
                again.append(seconds)
                if turn == rounds - 1:
                    time.sleep(0 if quick else SETTLED_SECONDS)
                    memory = memory_mb(pid)
    rows = [
        Figure("first start, s", first, most=FIRST_SECONDS),
        Figure("second start, s", statistics.median(again), most=AGAIN_SECONDS),
        Figure("memory, MB", memory, most=MEMORY_MB),
    ]
    return report("stack", rows)


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
    """Return the environment of a shell outside this checkout."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "SOLCX_BINARY_PATH", "APE_DATA_FOLDER", "DATABASE_URL")
    env = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("VPM_")}
    path = [part for part in env["PATH"].split(os.pathsep) if not part.startswith(str(REPOSITORY))]
    return {**env, "PATH": os.pathsep.join(path)}

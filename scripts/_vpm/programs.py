"""Programs that a command runs and waits for. A command that gets SIGTERM ends them first: Ctrl-C reaches them
directly, SIGTERM (of CI, of `docker stop`) reaches the command alone.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from core.paths import REPOSITORY

# A program that has not ended so long after SIGTERM is killed.
TERM_SECONDS = 10.0
TERMINATED = 128 + signal.SIGTERM  # as a shell reports it

_running: set[subprocess.Popen[str]] = set()
_ending = threading.Event()


def run(
    argv: Sequence[str], env: dict[str, str], output: int | IO[str] | None, *, cwd: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """With an output, both streams go there."""
    if _ending.is_set():  # another thread's line, which would begin its next program
        raise SystemExit(TERMINATED)
    error = None if output is None else subprocess.STDOUT
    program = subprocess.Popen(argv, cwd=cwd, env=env, stdout=output, stderr=error, text=True)
    _running.add(program)
    try:
        with program:
            if _ending.is_set():  # since the line above
                program.terminate()
            said, _ = program.communicate()
    finally:
        _running.discard(program)
    return subprocess.CompletedProcess(argv, program.returncode, said)


def end_with_this_command() -> None:
    """From now on, SIGTERM ends what runs and then this process."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    _ending.set()
    _signal_all(signal.SIGTERM)
    killing = threading.Timer(TERM_SECONDS, _signal_all, [signal.SIGKILL])
    killing.daemon = True
    killing.start()
    raise SystemExit(TERMINATED)


def _signal_all(number: int) -> None:
    for program in tuple(_running):
        program.send_signal(number)

"""Programs that a command runs and waits for. Told to end, the command ends them first: Ctrl-C reaches them by
themselves, SIGTERM (of CI, of `docker stop`) reaches the command alone.
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

TERMINATED = 128 + signal.SIGTERM  # as a shell reports it

_running: set[subprocess.Popen[str]] = set()
_told_to_end = threading.Event()


def run(
    argv: Sequence[str], env: dict[str, str], output: int | IO[str] | None, *, cwd: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """With an output, both streams go there."""
    if _told_to_end.is_set():  # another thread's line, which would begin its next program
        raise SystemExit(TERMINATED)
    error = None if output is None else subprocess.STDOUT
    with subprocess.Popen(argv, cwd=cwd, env=env, stdout=output, stderr=error, text=True) as program:
        _running.add(program)
        if _told_to_end.is_set():  # meanwhile
            program.send_signal(signal.SIGINT)
        try:
            said, _ = program.communicate()
        finally:
            _running.discard(program)
    return subprocess.CompletedProcess(argv, program.returncode, said)


def end_with_this_command() -> None:
    """From now on, SIGTERM interrupts what runs, as Ctrl-C would, and then ends this process."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    _told_to_end.set()
    for program in tuple(_running):
        program.send_signal(signal.SIGINT)
    raise SystemExit(TERMINATED)

"""Runs one program and makes sure it ends: when told to, and when the process that wanted it is gone.

    python -S -I guard.py PARENT_PID STOP_SIGNAL USER CWD SCRATCH -- PROGRAM ARGUMENTS...

Standard library only, so that it starts in a few milliseconds. SIGTERM and SIGINT are passed on as STOP_SIGNAL, SIGQUIT
as SIGKILL. USER is a numeric uid and gid, or -1. SCRATCH is a folder that goes with the program, or empty. Ends with
the program's exit code, or 128 + its signal.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scripts._local.process import Program

STOP_PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.2
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def main() -> int:
    parent_pid, stop_signal, user, cwd = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    scratch, argv = sys.argv[5], sys.argv[7:]
    signals = listen()
    try:
        return run(argv, cwd, user, signals, parent_pid, stop_signal)
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def run(argv: list[str], cwd: str, user: int, signals: list[int], parent_pid: int, stop_signal: int) -> int:
    """Returns its exit code; 127 when it cannot be run."""
    try:
        if user >= 0:
            program = subprocess.Popen(argv, cwd=cwd, user=user, group=user, extra_groups=[], start_new_session=True)
        else:
            program = subprocess.Popen(argv, cwd=cwd, start_new_session=True)
    except OSError as error:
        print(f"{argv[0]} cannot be run: {error.strerror or error}", flush=True)
        return 127
    return watch(program, signals, parent_pid, stop_signal)


def listen() -> list[int]:
    """What this process is told by signals, from now on."""
    signals: list[int] = []
    for each in SIGNALS:
        signal.signal(each, lambda number, _frame: signals.append(number))
    return signals


def watch(program: Program, signals: list[int], parent_pid: int, stop_signal: int) -> int:
    """Returns the exit code of a program that leads its session, and leaves nothing of that session behind."""
    own_parent = os.getppid() == parent_pid
    stopping_since: float | None = None
    while True:
        try:
            code = program.wait(POLL_SECONDS if not signals else 0.01)
            break
        except subprocess.TimeoutExpired:
            pass
        if not signals and not _alive(parent_pid, own_parent):
            signals.append(signal.SIGTERM)
        if signal.SIGQUIT in signals:
            program.send_signal(signal.SIGKILL)
        elif signals and stopping_since is None:
            stopping_since = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                program.send_signal(stop_signal)
        elif stopping_since is not None and time.monotonic() - stopping_since > STOP_PATIENCE_SECONDS:
            program.send_signal(signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)  # whatever it left behind in its session
    return code if code >= 0 else 128 - code


def _alive(pid: int, own_parent: bool) -> bool:
    if own_parent:
        return os.getppid() == pid  # a dead parent's children are handed to another process at once
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main())

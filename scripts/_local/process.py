"""What to spawn, as data, and a guarded way to spawn it that leaves nothing behind.

A `SpawnPlan` says everything a supervisor needs. `start_process` runs it under a small guard process (`guard.py`) that
stops the program when we stop it, and also when we die without a chance to.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from core.errors import ProcessError

PR_SET_PDEATHSIG = 1
_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True)
class SpawnPlan:
    """How to run one program.

    env: the whole environment. user: numeric uid and gid to run as, or None for our own. stop_signal: what makes it
    end in an orderly way. cwd: always set, since an unprivileged user may not be able to enter ours. scratch: a folder
    for nothing but this program, which goes with it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: str = "/"
    user: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    scratch: Path | None = None


class Program(Protocol):
    """A process that was started, with what is asked of `subprocess.Popen` here."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


@dataclass(slots=True)
class RunningProcess:
    """A program under its guard. `log_path` has what it printed."""

    plan: SpawnPlan
    guard: Program
    log_path: Path

    @property
    def pid(self) -> int:
        """The guard's process id; signalling it signals the program."""
        return self.guard.pid

    def alive(self) -> bool:
        return self.guard.poll() is None

    def tail(self, lines: int = 15) -> str:
        """The end of what the program printed, for an error message."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Asks the program to end, kills it after the timeout, and waits until it is gone."""
        if self.alive():
            self.begin_to_stop()
            try:
                self.guard.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self.guard.send_signal(signal.SIGQUIT)  # the guard kills its program
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.guard.wait(5)
        self.guard.wait()

    def begin_to_stop(self) -> None:
        """Asks the program to end and does not wait."""
        self.guard.send_signal(self.plan.stop_signal)

    def kill_program(self) -> None:
        """SIGKILL to the program itself, as a crash would: for fault tests.

        Told again and again: a guard that is just starting may have inherited that SIGQUIT is ignored.
        """
        for _ in range(40):
            self.guard.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.guard.wait(0.25)
                return
        raise ProcessError(f"{self.plan.name} (guard {self.guard.pid}) did not end within 10 s of being killed.")


def stop_together(processes: Iterable[RunningProcess]) -> None:
    """Each takes its time, and all of them at once."""
    stopping = list(processes)
    for each in stopping:
        each.begin_to_stop()
    for each in stopping:
        each.stop()


def start_process(plan: SpawnPlan, log_path: Path, *, parent_pid: int | None = None) -> RunningProcess:
    """Spawns the plan under a guard that outlives neither the program nor `parent_pid` (this process by default)."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as output:
        guard = spawn(plan, output, parent_pid or os.getpid())
    return RunningProcess(plan, guard, log_path)


def guarded(plan: SpawnPlan, parent_pid: int) -> list[str]:
    """Return the command that runs the plan under a guard."""
    command = [sys.executable, "-S", "-I", str(_GUARD), str(parent_pid)]
    command += [str(int(plan.stop_signal)), str(-1 if plan.user is None else plan.user), plan.cwd]
    return [*command, str(plan.scratch or ""), "--", *plan.argv]


def spawn_guard(plan: SpawnPlan, output: IO[bytes], parent_pid: int) -> Program:
    """A new guard process, which starts the program."""
    try:
        return subprocess.Popen(
            guarded(plan, parent_pid),
            env=dict(plan.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on, in order
        )
    except OSError as error:
        raise ProcessError(f"{plan.name} did not start: {error.strerror or error}.") from None


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """Return what a new child calls first, so that the kernel signals it when this process dies, however it dies.

    Linux only; and called in the main thread, for it is the thread whose end counts.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return in_child


spawn: Callable[[SpawnPlan, IO[bytes], int], Program] = spawn_guard  # the tests fork a warm process instead


def wait_until(check: Callable[[], bool], running: RunningProcess, timeout_seconds: float, what: str) -> None:
    """Polls `check()` until it is true; ProcessError with the program's last words when it ends or takes too long."""
    deadline = time.monotonic() + timeout_seconds
    while not check():
        if not running.alive():
            raise ProcessError(f"{what} ended before it was ready. Its last words:\n{running.tail()}")
        if time.monotonic() > deadline:
            raise ProcessError(f"{what} was not ready within {timeout_seconds:g} s. Its last words:\n{running.tail()}")
        time.sleep(0.03)

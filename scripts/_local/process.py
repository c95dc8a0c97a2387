"""Describes programs and runs them so that none outlives the process that started it. On Linux, the kernel kills a
program when the process that started it ends for any reason. On other systems, only Ctrl-C and SIGTERM are handled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from core.errors import ProcessError
from core.paths import REPOSITORY
from scripts._local import forking
from scripts._local.forking import ForkedProcess, die_with_parent

POLL_SECONDS = 0.03
EXIT_POLL_SECONDS = 0.05
READY_SECONDS = 120.0  # all parts of a stack start at once, possibly on a busy machine


@dataclass(frozen=True, slots=True)
class SpawnPlan:
    """How to run one program.

    env: the program's complete environment.
    user: the numeric uid and gid to run as, or None for this process's user.
    stop_signal: the signal that asks the program to shut down. The program is killed `stop_seconds` later.
    orphan_signal: the signal that the program gets when this process ends.
    cwd: the working folder. It is required because an unprivileged user may not be able to enter ours.
    scratch: a folder that is removed when the program has ended.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: str = "/"
    user: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    orphan_signal: signal.Signals = signal.SIGKILL
    scratch: Path | None = None


Program: TypeAlias = subprocess.Popen[bytes] | ForkedProcess


@dataclass(slots=True)
class RunningProcess:
    """A running program that leads its own session. Its output goes to `log_path`."""

    plan: SpawnPlan
    program: Program
    log_path: Path
    stop_requested: bool = False
    """Whether it was asked to stop; a second signal would make a daemon quit at once."""

    @property
    def pid(self) -> int:
        return self.program.pid

    def alive(self) -> bool:
        return self.program.poll() is None

    def tail(self, lines: int = 15) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def describe_exit(self) -> str:
        code = self.program.poll()
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        last = "".join(f"\n    | {line}" for line in self.tail(20).splitlines())
        return f"{self.plan.name} {how}; its log is {self.log_path}{last}"

    def stop(self, timeout_seconds: float | None = None) -> None:
        """Ask the program to stop, and kill it after the timeout. Wait until the program and its children are gone."""
        if self.alive():
            self.request_stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.program.wait(self.plan.stop_seconds if timeout_seconds is None else timeout_seconds)
        self.kill()

    def request_stop(self) -> None:
        """Ask the program to stop, and do not wait for it. Further calls do nothing."""
        if not self.stop_requested:
            self.stop_requested = True
            self.program.send_signal(self.plan.stop_signal)

    def kill(self) -> None:
        """Kill the program and its session, and remove its scratch folder."""
        self.program.kill()
        self.program.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.program.pid, signal.SIGKILL)
        _remove_scratch(self.plan)


def stop_together(processes: Iterable[RunningProcess]) -> None:
    stopping = list(processes)
    for each in stopping:
        each.request_stop()
    for each in stopping:
        each.stop()


def start_process(plan: SpawnPlan, log_path: Path) -> RunningProcess:
    """Start the program. It ends when this process ends or, unless it was forked, when the calling thread ends."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    _remove_scratch(plan)  # left by an earlier run that was killed
    with Path(os.devnull).open("rb") as nothing, log_path.open("ab") as output:
        try:
            program = spawn(
                plan.argv, plan.env, (nothing, output, output), plan.cwd, plan.user, orphan_signal=plan.orphan_signal
            )
        except OSError as error:
            raise ProcessError(f"{plan.name} cannot be run: {error.strerror or error}.") from None
    return RunningProcess(plan, program, log_path)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    files: tuple[IO[bytes], IO[bytes], IO[bytes]],
    cwd: str = str(REPOSITORY),
    user: int | None = None,
    *,
    orphan_signal: int = signal.SIGKILL,
) -> Program:
    """Start a program in its own session, so that a Ctrl-C in the terminal reaches only this process. `files` are the
    program's standard input, output and error. A fork server starts the program if forking has the same effect."""
    server = next((each for each in forking.servers if user is None and each.can_fork(argv, env, cwd)), None)
    if server is not None:
        return server.fork(argv, env, files, orphan_signal)
    stdin, stdout, stderr = files
    return subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
        preexec_fn=die_with_parent(orphan_signal),  # noqa: PLW1509 - it only makes two system calls
    )


def wait_until(check: Callable[[], bool], running: RunningProcess, timeout_seconds: float, what: str) -> None:
    """Poll `check` until it returns True. Raise ProcessError if the program exits or takes too long."""
    deadline = time.monotonic() + timeout_seconds
    while not check():
        if not running.alive():
            raise ProcessError(f"{what} ended before it was ready: {running.describe_exit()}")
        if time.monotonic() > deadline:
            raise ProcessError(
                f"{what} was not ready within {timeout_seconds:g} s. The end of its output:\n{running.tail()}"
            )
        time.sleep(POLL_SECONDS)


def _remove_scratch(plan: SpawnPlan) -> None:
    if plan.scratch is not None:
        shutil.rmtree(plan.scratch, ignore_errors=True)


async def run_together(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


class Supervisor:
    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: list[RunningProcess] = []
        self._one_shot: set[str] = set()  # the names of parts that are expected to end

    @property
    def names(self) -> list[str]:
        return [each.plan.name for each in self._running]

    async def start(self, plan: SpawnPlan, answers: Callable[[], bool] | None = None) -> None:
        """Start a part of the stack and wait until it is ready. Raise ProcessError if the part exits before that."""
        running = self._begin(plan)
        if answers is not None:
            await asyncio.to_thread(wait_until, answers, running, READY_SECONDS, plan.name)

    async def run_to_completion(self, plan: SpawnPlan) -> None:
        self._one_shot.add(plan.name)
        running = self._begin(plan)
        while running.alive():
            await asyncio.sleep(EXIT_POLL_SECONDS)
        if running.program.returncode != 0:
            raise ProcessError(running.describe_exit())
        self._running.remove(running)

    async def wait_for_exit(self) -> str:
        """Wait until a part exits unexpectedly. Return which part exited and how."""
        while True:
            for running in self._running:
                if running.plan.name not in self._one_shot and not running.alive():
                    return running.describe_exit()
            await asyncio.sleep(EXIT_POLL_SECONDS)

    async def stop(self) -> None:
        """Stop all parts, the most recently started one first."""
        while self._running:
            await asyncio.to_thread(self._running.pop().stop)

    def _begin(self, plan: SpawnPlan) -> RunningProcess:
        log = self._log_dir / f"{plan.name}.log"
        self._log_dir.mkdir(parents=True, exist_ok=True)
        with log.open("a") as out:
            out.write(f"\n--- {time.strftime('%Y-%m-%d %H:%M:%S')} start {plan.name}\n")
        running = start_process(plan, log)
        self._running.append(running)
        return running

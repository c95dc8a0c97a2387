"""Owns the processes of one stack: starts them, notices the first that ends, stops all of them.

What must stay true: whatever happens to this process (an orderly stop, an exception, a crash of a child, SIGKILL),
nothing it started outlives it. Each child leads its own process group, so its own children go with it; on Linux
the kernel also kills a child whose supervisor is gone, and our daemons watch VPM_PARENT_PID for the same reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from scripts._local.process import SpawnPlan, die_with_parent, guarded
from scripts._stack.daemon_host import DaemonHost


@dataclass(frozen=True)
class Child:
    """How to run one part of the stack."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    whole_env: bool = False  # `env` is all of the environment, not an addition to ours
    cwd: str | None = None
    user: int | None = None  # run as this uid and gid (PostgreSQL refuses root)
    scratch: Path | None = None  # a folder of its own, which goes with it
    stop_signal: int = signal.SIGTERM
    orphan_signal: int = signal.SIGKILL  # what the kernel sends if the supervisor dies
    stop_seconds: float = 10.0
    ready: Callable[[], Awaitable[None]] | None = None  # returns once the part answers
    ready_seconds: float = 60.0


def child(plan: SpawnPlan, answers: Callable[[], bool], *, name: str, stop_seconds: float = 10.0) -> Child:
    """Make a part of a plan of scripts._local; it is ready once `answers`, asked in a thread, says yes."""

    async def ready() -> None:
        while not await asyncio.to_thread(answers):
            await asyncio.sleep(0.05)

    argv, user = list(plan.argv), plan.user
    if not sys.platform.startswith("linux"):
        # Only Linux kills a child with its parent; elsewhere a small guard process does.
        argv, user = guarded(plan, os.getpid()), None
    return Child(
        name=name,
        argv=argv,
        env=dict(plan.env),
        whole_env=True,
        cwd=plan.cwd,
        user=user,
        scratch=plan.scratch,
        stop_signal=plan.stop_signal,
        orphan_signal=signal.SIGQUIT if name == "postgres" else signal.SIGKILL,
        stop_seconds=stop_seconds,
        ready=ready,
    )


async def together(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """None waits for another; the first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


class ChildFailed(Exception):
    """The failure of a part of the stack, which ended or never became ready; the message says which, how, and its last
    words."""


class Process(Protocol):
    """What the supervisor asks of a part, however it was made."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def send_signal(self, number: int, /) -> None: ...


@dataclass
class _Running:
    child: Child
    process: Process
    log: Path


class Supervisor:
    """The parts of a stack that run, started in order and stopped together when one ends.

    host: what forks the programs it has imported; without one each is a new interpreter.
    """

    def __init__(self, log_dir: Path, host: DaemonHost | None = None) -> None:
        self._log_dir = log_dir
        self._host = host
        self._running: list[_Running] = []
        self._ended: asyncio.Queue[_Running] = asyncio.Queue()
        self._watchers: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def names(self) -> list[str]:
        return [r.child.name for r in self._running]

    def all_started(self) -> None:
        """What forked the parts has nothing left to do, and takes as much memory as one of them."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def pids(self) -> dict[str, int]:
        return {r.child.name: r.process.pid for r in self._running}

    async def start(self, child: Child) -> None:
        """Start a part and wait until it is ready; raises ChildFailed if it ends first."""
        running = await self._begin(child)
        watcher = asyncio.create_task(self._watch(running))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        if child.ready is not None:
            await self._until_ready(running)

    async def finish(self, child: Child) -> None:
        """Run a part to its end; raises ChildFailed if that is a failure."""
        running = await self._begin(child)
        await running.process.wait()
        if running.process.returncode != 0:
            raise ChildFailed(self._obituary(running))
        self._running.remove(running)

    async def _begin(self, child: Child) -> _Running:
        self._log_dir.mkdir(parents=True, exist_ok=True)
        _sweep(child)  # of one that nobody was left to sweep after
        log = self._log_dir / f"{child.name}.log"
        with log.open("ab") as out:
            out.write(f"\n--- {time.strftime('%Y-%m-%d %H:%M:%S')} start {child.name}\n".encode())
            out.flush()
            process = await self._spawn(child, out.fileno())
        running = _Running(child, process, log)
        self._running.append(running)
        return running

    async def _spawn(self, child: Child, output: int) -> Process:
        env = {**({} if child.whole_env else os.environ), **child.env, "VPM_PARENT_PID": str(os.getpid())}
        if self._host is not None and child.user is None and self._host.can(child.argv):
            return await self._host.fork(child.argv, env, output, child.orphan_signal)
        drop = {} if child.user is None else {"user": child.user, "group": child.user, "extra_groups": []}
        return await asyncio.create_subprocess_exec(
            *child.argv,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=child.cwd,
            start_new_session=True,
            preexec_fn=die_with_parent(child.orphan_signal),
            **drop,  # type: ignore[arg-type]
        )

    async def _until_ready(self, running: _Running) -> None:
        assert running.child.ready is not None
        ready = asyncio.ensure_future(running.child.ready())
        ended = asyncio.create_task(running.process.wait())
        try:
            done, _ = await asyncio.wait(
                {ready, ended}, timeout=running.child.ready_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if ready in done:
                ready.result()
            elif ended in done:
                raise ChildFailed(self._obituary(running))
            else:
                raise ChildFailed(
                    f"{running.child.name} did not become ready within {running.child.ready_seconds:.0f} s; "
                    f"its log is {running.log}{_tail(running.log)}"
                )
        finally:
            for task in (ready, ended):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _watch(self, running: _Running) -> None:
        await running.process.wait()
        if not self._stopping:
            await self._ended.put(running)

    async def first_end(self) -> str:
        """Waits until any part ends by itself and says which and how."""
        return self._obituary(await self._ended.get())

    def _obituary(self, running: _Running) -> str:
        code = running.process.returncode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        return f"{running.child.name} {how}; its log is {running.log}{_tail(running.log)}"

    async def stop(self) -> None:
        """Stop everything, last started first; what does not go in time is killed with all its children."""
        self._stopping = True
        for running in reversed(self._running):
            process = running.process
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(running.child.stop_signal)
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(process.wait(), running.child.stop_seconds)
            _kill_group(process.pid)
            with contextlib.suppress(ProcessLookupError):
                await process.wait()
            await asyncio.to_thread(_sweep, running.child)
        self._running.clear()
        for watcher in list(self._watchers):
            watcher.cancel()


def _sweep(child: Child) -> None:
    if child.scratch is not None:
        shutil.rmtree(child.scratch, ignore_errors=True)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - 8000))
            last = handle.read().decode(errors="replace").splitlines()[-20:]
    except OSError:
        return ""
    return "".join(f"\n    | {line}" for line in last)

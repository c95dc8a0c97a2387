"""Supervises the processes of a stack: starts them, notices the first that exits, and then stops all of them.

Invariant: however this process ends (an orderly stop, an exception, a crash of a part), nothing it started outlives it;
on Linux that holds for a SIGKILL too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from core.errors import ProcessError
from scripts._local.process import RunningProcess, SpawnPlan, start_process, wait_until

READY_SECONDS = 120.0  # all parts start at once, maybe on a busy machine
POLL_SECONDS = 0.05


async def run_together(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run coroutines concurrently. When one fails, cancel the others and raise its error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


class Supervisor:
    """The running parts of a stack."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: list[RunningProcess] = []
        self._one_shot: set[str] = set()  # the names of parts that are expected to end

    @property
    def names(self) -> list[str]:
        return [each.plan.name for each in self._running]

    async def start(self, plan: SpawnPlan, answers: Callable[[], bool] | None = None) -> None:
        """Start a part and wait until it answers. Raise ProcessError if the part exits first."""
        running = self._begin(plan)
        if answers is not None:
            await asyncio.to_thread(wait_until, answers, running, READY_SECONDS, plan.name)

    async def run_to_completion(self, plan: SpawnPlan) -> None:
        """Run a part until it exits. Raise ProcessError if the part fails."""
        self._one_shot.add(plan.name)
        running = self._begin(plan)
        while running.alive():
            await asyncio.sleep(POLL_SECONDS)
        if running.program.returncode != 0:
            raise ProcessError(running.describe_exit())
        self._running.remove(running)

    async def wait_for_exit(self) -> str:
        """Wait until a part exits unexpectedly. Return which part exited and how."""
        while True:
            for running in self._running:
                if running.plan.name not in self._one_shot and not running.alive():
                    return running.describe_exit()
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Stop all parts, the last started first."""
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

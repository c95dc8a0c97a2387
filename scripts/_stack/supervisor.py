"""Owns the processes of one stack: starts them, notices the first that ends, stops all of them.

Invariant: however this process ends (an orderly stop, an exception, a crash of a part), nothing it started outlives it;
on Linux not after a SIGKILL either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from core.errors import ProcessError
from scripts._local.process import RunningProcess, SpawnPlan, start_process, wait_until

READY_SECONDS = 120.0  # all start at once, maybe on a busy machine
LOOK_SECONDS = 0.05


async def together(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """Run parts at the same time; the first that fails ends the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


class Supervisor:
    """The parts of a stack that run, started in order and stopped together when one ends."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: list[RunningProcess] = []
        self._passing: set[str] = set()  # the names of parts that are to end

    @property
    def names(self) -> list[str]:
        return [each.plan.name for each in self._running]

    async def start(self, plan: SpawnPlan, answers: Callable[[], bool] | None = None) -> None:
        """Start a part and wait until it answers; ProcessError if it ends first."""
        running = self._begin(plan)
        if answers is not None:
            await asyncio.to_thread(wait_until, answers, running, READY_SECONDS, plan.name)

    async def finish(self, plan: SpawnPlan) -> None:
        """Run a part to its end; ProcessError if that is a failure."""
        self._passing.add(plan.name)
        running = self._begin(plan)
        while running.alive():
            await asyncio.sleep(LOOK_SECONDS)
        if running.program.returncode != 0:
            raise ProcessError(running.obituary())
        self._running.remove(running)

    async def first_end(self) -> str:
        """Wait until any part ends unasked; say which and how."""
        while True:
            for running in self._running:
                if running.plan.name not in self._passing and not running.alive():
                    return running.obituary()
            await asyncio.sleep(LOOK_SECONDS)

    async def stop(self) -> None:
        """Stop everything, last started first."""
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

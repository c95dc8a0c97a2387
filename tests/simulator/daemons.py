"""The service's processes: the daemons' main parts, started, killed and restarted in one event loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from api.__main__ import serving
from core.config import Settings, load
from core.errors import EXIT_CONFIG
from core.service.daemon import Setup, serve
from indexer.service import setup as indexer_setup
from keeper import service as keeper_service
from keeper.jobs import JOBS
from keeper.service import setup as keeper_setup
from relayer.service import setup as relayer_setup
from tests.simulator.loop import Process, inside

SETUPS: dict[str, Callable[[], Setup]] = {
    "indexer": lambda: indexer_setup,
    "relayer": lambda: relayer_setup,
    "keeper": lambda: keeper_setup,
    "api": lambda: serving,
}
RESTART_SECONDS = (0.2, 5.0)


def without_the_cup() -> None:
    """Switch off the keeper's cup jobs in worlds of another side, where they would be most of its runs."""
    vars(keeper_service)["JOBS"] = tuple(each for each in JOBS if not each.name.startswith("cup-"))


@dataclass
class Fleet:
    """The processes. `lives` keeps every process that ever lived, because nothing of a dead one may be collected.
    `kill_every`: the mean number of its own steps after which a process dies; None: no process is killed."""

    dice: random.Random
    kill_every: int | None = None
    running: dict[str, Process] = field(default_factory=dict)
    lives: list[Process] = field(default_factory=list)
    kills: int = 0
    crashes: list[str] = field(default_factory=list)
    misconfigured: list[str] = field(default_factory=list)
    stopping: bool = False
    _keeping: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, *names: str) -> None:
        for name in names:
            self._keeping.append(asyncio.create_task(self._keep(name)))

    async def _keep(self, name: str) -> None:
        while not self.stopping:
            await self._live(name)
            await asyncio.sleep(self.dice.uniform(*RESTART_SECONDS))

    async def _live(self, name: str) -> None:
        process = Process(name)
        self._doom(process)
        self.running[name] = process
        self.lives.append(process)
        daemon = name.partition("-")[0]
        ended = asyncio.Event()
        process.on_kill.append(ended.set)
        with inside(process):
            living = asyncio.create_task(serve(name, SETUPS[daemon](), load(Settings), 0))
        living.add_done_callback(lambda _: ended.set())
        await ended.wait()
        if process.dead:
            self.kills += 1
        else:
            code = living.result()
            process.kill()  # what an ended process leaves behind is gone with it
            if code:
                self.crashes.append(f"{name} ended with {code}")
            if code == EXIT_CONFIG:
                self.misconfigured.append(name)

    def _doom(self, process: Process) -> None:
        if self.kill_every is not None:
            process.kill_at = process.steps + 1 + int(self.dice.expovariate(1 / self.kill_every))

    def restart(self, daemon: str) -> None:
        for name, process in self.running.items():
            if name.partition("-")[0] == daemon and not process.dead:
                (process.stop or process.kill)()

    def redraw(self) -> None:
        for process in self.running.values():
            self._doom(process)

    def calm(self) -> None:
        self.kill_every = None
        for process in self.running.values():
            process.kill_at = None

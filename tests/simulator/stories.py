"""The course of a world: what each side of the service does in it."""

from __future__ import annotations

import asyncio
import random
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol

from tests.simulator.chain import SimulatedChain
from tests.simulator.clients import Clients
from tests.simulator.clock import VirtualClock
from tests.simulator.database import SimulatedDatabase
from tests.simulator.judgement import Judgement
from tests.simulator.weather import Weather

NODE_PORTS = (8545, 8546)
NODE_URLS = ",".join(f"http://127.0.0.1:{port}" for port in NODE_PORTS)


class Story(Protocol):
    chain: SimulatedChain
    clock: VirtualClock
    database: SimulatedDatabase
    weather: Weather
    url: str

    def dice(self, of: str) -> random.Random: ...

    def storm(self) -> None: ...

    def calm(self) -> None: ...

    def restart(self, daemon: str, **settings: str) -> None: ...

    async def until(self, second: float) -> None: ...

    async def sleep_until(self, second: float) -> None: ...


class Side(ABC):
    """One side of the service in one world: who uses it, what happens, and whether all was well."""

    world: Story
    crowd: Clients[Any]
    _looking: asyncio.Task[None]

    @abstractmethod
    def __init__(self, world: Story, deployments: Path, database_url: str) -> None: ...

    @abstractmethod
    def environment(self) -> dict[str, str]: ...

    @abstractmethod
    def begin(self) -> None:
        """Before the first block of the story."""

    @abstractmethod
    async def story(self) -> None: ...

    @abstractmethod
    def is_over(self) -> bool:
        """Return whether nothing is left to do, as far as the world knows, once every bet is answered."""

    @abstractmethod
    async def judge(self, chain_url: str) -> Judgement: ...

    async def listed(self, query: str, second: float) -> None:
        while not self.world.database.ask(query) and self.world.clock.elapsed < second:
            await asyncio.sleep(0.5)

    async def bets_until(self, second: float) -> None:
        """While everything goes wrong. Who looks goes on looking."""
        self.world.storm()
        betting = asyncio.create_task(self.crowd.play(self.world.weather.pace))
        self._looking = asyncio.create_task(self.crowd.look(2.0))
        await self.world.until(second)
        await ended(betting)

    async def answers_until(self, second: float) -> None:
        while self.crowd.somebody_waits and self.world.clock.elapsed < second:
            await asyncio.sleep(2)

    async def the_end(self, seconds: int) -> None:
        for _ in range(0, seconds, 2):
            await asyncio.sleep(2)
            if self._is_over():
                break
        await asyncio.sleep(6)
        await ended(self._looking)

    def _is_over(self) -> bool:
        for each in self.crowd.betting:
            if each.done():
                each.result()
        if self.crowd.somebody_waits or not self.is_over():
            return False
        ((indexed,),) = self.world.database.ask("SELECT max(number) FROM chain_cursor")
        return indexed is not None and bool(indexed >= self.world.chain.head - 1)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    results = await asyncio.gather(task, return_exceptions=True)
    for error in results:
        if isinstance(error, Exception):
            print(f"a client failed: {error!r}", file=sys.stderr)
            raise error

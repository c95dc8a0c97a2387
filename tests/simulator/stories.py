"""The course of a world: what each side of the service does in it."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulator.clients import Clients
from tests.simulator.judgement import Judgement

if TYPE_CHECKING:
    from tests.simulator.world import World

NODE_PORTS = (8545, 8546)
NODE_URLS = ",".join(f"http://127.0.0.1:{port}" for port in NODE_PORTS)


class Side(ABC):
    """One side of the service in one world: its users, its story, and its judgement."""

    world: World
    crowd: Clients[Any]
    _looking: asyncio.Task[None]

    @abstractmethod
    def __init__(self, world: World, deployments: Path, database_url: str) -> None: ...

    @abstractmethod
    def environment(self) -> dict[str, str]: ...

    @abstractmethod
    def begin(self) -> None:
        """Prepare the side before the first block of the story."""

    @abstractmethod
    async def story(self) -> None: ...

    @abstractmethod
    def is_over(self) -> bool:
        """Return whether nothing is left to do, as far as the world knows, after every bet has an outcome."""

    @abstractmethod
    async def judge(self, chain_url: str) -> Judgement: ...

    async def listed(self, query: str, second: float) -> None:
        while not self.world.database.ask(query) and self.world.clock.elapsed < second:
            await asyncio.sleep(0.5)

    async def bets_until(self, second: float) -> None:
        """Let clients bet in rough weather until this moment. Those who read go on reading afterwards."""
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

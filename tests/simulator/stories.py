"""What a story is told with: what each side of the service is given by its world."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any, Protocol

from tests.simulator.chain import SimulatedChain
from tests.simulator.clock import VirtualClock
from tests.simulator.database import SimulatedDatabase
from tests.simulator.judgement import Judgement
from tests.simulator.weather import Weather

NODE_PORTS = (8545, 8546)
NODE_URLS = ",".join(f"http://127.0.0.1:{port}" for port in NODE_PORTS)


class Story(Protocol):
    """A world as a side sees it."""

    chain: SimulatedChain
    clock: VirtualClock
    database: SimulatedDatabase
    weather: Weather
    url: str

    def dice(self, of: str) -> random.Random: ...

    def storm(self) -> None: ...

    def calm(self) -> None: ...

    async def until(self, second: float) -> None: ...

    async def sleep_until(self, second: float) -> None: ...


class Side(Protocol):
    """One side of the service in one world: who uses it, what happens, and whether all was well."""

    crowd: Any

    def __init__(self, world: Story, deployments: Path, database_url: str) -> None: ...

    def environment(self) -> dict[str, str]: ...

    def begin(self) -> None:
        """Before the first block of the story."""

    async def story(self) -> None: ...

    async def judge(self, chain_url: str) -> Judgement: ...


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    results = await asyncio.gather(task, return_exceptions=True)
    for error in results:
        if isinstance(error, Exception):
            print(f"a client failed: {error!r}", file=sys.stderr)
            raise error

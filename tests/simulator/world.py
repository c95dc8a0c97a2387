"""A world for one seed, from its first block to the last check."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.simulator.chain import SimulatedChain
from tests.simulator.clock import VirtualClock, install
from tests.simulator.daemons import Fleet, without_the_cup
from tests.simulator.database import SimulatedDatabase
from tests.simulator.judgement import RAN, Judgement
from tests.simulator.loop import Process, VirtualLoop, inside
from tests.simulator.network import Network
from tests.simulator.node import WELL, SimulatedNode
from tests.simulator.sides import SIDES
from tests.simulator.stories import NODE_PORTS, Side
from tests.simulator.weather import Weather

EPOCH = 1_900_000_970  # the first second of every world
API_PORT = 8400
CHAIN_PORT = 8500  # the chain as it is, for the audit
DAEMONS = ("indexer-0", "relayer-0", "keeper-0", "api-0")


def environment(database_url: str, deployments: Path) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_PORT": str(API_PORT),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{API_PORT}",
        "VPM_API_METRICS_PORT": "0",
        "VPM_INDEXER_METRICS_PORT": "0",
        "VPM_KEEPER_METRICS_PORT": "0",
        "VPM_RELAYER_METRICS_PORT": "0",
        "VPM_RPC_TIMEOUT_SECONDS": "5",
        "VPM_DATABASE_POOL_SIZE": "4",
        "VPM_TRUST_PROXY": "1",
        "VPM_KEEPER_CANARY": "0",
        "VPM_CUP_OPENS_AT": "2040-01-01T00:00:00Z",
        "VPM_CUP_CLOSES_AT": "2041-01-01T00:00:00Z",
        "VPM_LOG_FORMAT": "console",
    }


def follow_the_seed(dice: random.Random) -> None:
    random.seed(dice.getrandbits(64))
    draw = random.Random(dice.getrandbits(64))
    os.urandom = draw.randbytes
    random._urandom = draw.randbytes  # type: ignore[attr-defined]


@dataclass
class SeedResult:
    seed: int
    found: list[tuple[str, str]]
    counts: dict[str, int]
    digest: str
    weather: str
    crashes: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0


class World:
    """Everything of one seed. A process has only one world."""

    def __init__(
        self,
        seed: int,
        surface: str,
        chain_url: str,
        database_url: str,
        clock_file: Path,
        deployments: Path,
        *,
        weather: str = "",
    ) -> None:
        self.seed = seed
        self.surface = surface
        self.url = f"http://127.0.0.1:{API_PORT}"
        self.clock = VirtualClock(EPOCH, clock_file)
        self.loop = VirtualLoop(self.clock)
        self.weather = Weather.of(self.dice("weather")).but(weather)
        self.chain = SimulatedChain(chain_url, self.clock, self.dice("chain"))
        self.chain.block_seconds = self.weather.block_seconds
        self.network = Network(self.loop, self.dice("network"))
        for name in [name for name in os.environ if name.startswith("VPM_")]:
            del os.environ[name]  # no seed says what this machine has set
        os.environ.update(environment(database_url, deployments))
        self.database = SimulatedDatabase(database_url, self.loop, self.clock, self.dice("database"))
        if surface != "cup":
            without_the_cup()
        self.fleet = Fleet(self.dice("fleet"), self.weather.kill_every)
        self.side: Side = SIDES[surface](self, deployments, database_url)
        os.environ.update(self.side.environment())
        self.nodes = [
            # Of the two nodes one leaves no log out: the indexer proves no block by two that lie alike.
            SimulatedNode(self.chain, self.dice(f"node {port}"), is_whole=port != NODE_PORTS[0])
            for port in NODE_PORTS
        ]
        self.honest = SimulatedNode(self.chain, self.dice("honest"))
        self._tasks: list[asyncio.Task[None]] = []
        self._changing: list[asyncio.Task[None]] = []

    def dice(self, of: str) -> random.Random:
        """Return a named random generator. The agent side's generators keep their old names so that its seeds stay the
        same."""
        return random.Random(f"{self.seed} {of}" if self.surface == "agent" else f"{self.seed} {self.surface} {of}")

    def run(self) -> SeedResult:
        follow_the_seed(self.dice("everything else"))
        install(self.clock)
        self.side.begin()
        self.chain.begin()
        asyncio.set_event_loop(self.loop)
        judgement = self.loop.run_until_complete(self._live())
        self.loop.write_trace()
        if self.loop.trace_file is not None:
            self.loop.trace_file.close()
        digest = hashlib.sha256(self.loop.trace.digest() + repr(judgement.found).encode()).hexdigest()[:16]
        return SeedResult(
            self.seed,
            judgement.found,
            dict(judgement.counts),
            digest,
            repr(self.weather).removeprefix("Weather"),
            self.fleet.crashes + self.loop.failures,
        )

    async def _live(self) -> Judgement:
        for number, node in enumerate(self.nodes):
            await self._in(f"node-{number}", node.start(NODE_PORTS[number]))
        await self._in("honest", self.honest.start(CHAIN_PORT))
        self._spawn(self.chain.run())
        self.fleet.start(*DAEMONS, *filter(None, (self.weather.spare,)))
        with inside(Process("clients")):
            async with aiohttp.ClientSession() as self.side.crowd.session:
                await self.side.story()
                self.fleet.stopping = True
                judgement = await self.side.judge(f"http://127.0.0.1:{CHAIN_PORT}")
        counts = Counter(dict(judgement.counts))
        counts.update(
            kills=self.fleet.kills,
            forks=self.chain.forks,
            undone=self.chain.undone,
            statements=self.database.statements,
            parked=self.database.parked,
            questions=self.chain.asked,
            seconds=round(self.clock.elapsed),
        )
        for node in self.nodes:
            counts.update(node.counts)
        judgement.counts = counts
        if not self.side.crowd.bets and not self.fleet.kills and not self.chain.forks:
            judgement.against(RAN, "there were no bets, though no process died and no block was undone")
        for each in sorted(set(self.fleet.misconfigured)):
            judgement.against(RAN, f"{each} refused its settings")
        return judgement

    def storm(self) -> None:
        weather = self.weather
        self.fleet.kill_every = weather.kill_every
        self.fleet.redraw()
        self.chain.fork_rate = weather.fork_rate
        self.network.break_rate = weather.break_rate
        self._changing = [asyncio.create_task(each.change(weather.roughness)) for each in self.nodes]

    def calm(self) -> None:
        self.fleet.calm()
        self.chain.fork_rate = self.network.break_rate = 0.0
        for task in self._changing:
            task.cancel()
        for node in self.nodes:
            node.mood = WELL

    def restart(self, daemon: str, **settings: str) -> None:
        os.environ.update(settings)
        self.fleet.restart(daemon)

    async def until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, second - self.clock.elapsed))

    async def sleep_until(self, second: float) -> None:
        """Suspend the machine and the chain. Everything wakes up late at the same time."""
        seconds = max(0.0, second - self.clock.elapsed)
        self.chain.sleep(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def _in(self, name: str, work: object) -> None:
        with inside(Process(name)):
            await asyncio.create_task(work)  # type: ignore[arg-type]

    def _spawn(self, work: object) -> None:
        self._tasks.append(asyncio.create_task(work))  # type: ignore[arg-type]

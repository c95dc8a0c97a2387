"""One seed: a world from its first block to the last sentence."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from core.contracts.deployments import load_deployment
from core.money import USD
from core.outbox import CREDIT, KEEPER, LISTER, PUBLISHER, RELAY
from scripts._stack import wallets
from scripts._stack.wallets import wallet
from tests.simulator.bettors import Crowd, Outcome
from tests.simulator.chain import SimulatedChain
from tests.simulator.clock import VirtualClock, install
from tests.simulator.contracts import Truth
from tests.simulator.daemons import Fleet
from tests.simulator.database import SimulatedDatabase
from tests.simulator.loop import Process, VirtualLoop, inside
from tests.simulator.network import Network
from tests.simulator.node import WELL, SimulatedNode
from tests.simulator.sentences import RAN, Judge, Judgement

# The first second of every world. Bets on the first market end 60 s later; it is decided by the readings of 130 and
# 430 s, and settled from 500 s on.
EPOCH = 1_900_000_970
BETTING_SECONDS, MEASURED_FROM, MEASURED_UNTIL, SETTLES_AFTER = 60, 130, 430, 500
API_PORT = 8400
NODE_PORTS = (8545, 8546)
CHAIN_PORT = 8500  # the chain as it is, for the audit
FINALITY_BLOCKS = 12
BEGAN_WITH = 10_000 * USD
DAEMONS = ("indexer-0", "relayer-0", "keeper-0", "api-0")
SPARES = ("indexer-1", "relayer-1", "keeper-1")  # some seeds have one of these as well


def environment(database_url: str, deployments: Path) -> dict[str, str]:
    keys = {
        f"{RELAY}+{KEEPER}": wallets.RELAY_LANES[0],
        RELAY: wallets.RELAY_LANES[1],
        f"base:{LISTER}": wallets.OPENER,
        f"base:{CREDIT}": wallets.CREDITOR,
        f"base:{PUBLISHER}": wallets.PUBLISHER,
    }
    return {
        "DATABASE_URL": database_url,
        "VPM_BASE_RPC_URLS": ",".join(f"http://127.0.0.1:{port}" for port in NODE_PORTS),
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_PORT": str(API_PORT),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{API_PORT}",
        "VPM_API_METRICS_PORT": "0",
        "VPM_INDEXER_METRICS_PORT": "0",
        "VPM_KEEPER_METRICS_PORT": "0",
        "VPM_RELAYER_METRICS_PORT": "0",
        "VPM_BASE_FINALITY_BLOCKS": str(FINALITY_BLOCKS),
        "VPM_RPC_TIMEOUT_SECONDS": "5",
        "VPM_DATABASE_POOL_SIZE": "4",
        "VPM_TRUST_PROXY": "1",
        "VPM_KEEPER_CANARY": "0",
        "VPM_KEEPER_ROUND_SECONDS": "300",
        "VPM_KEEPER_LIST_SERIES": "0",
        "VPM_CUP_OPENS_AT": "2040-01-01T00:00:00Z",
        "VPM_CUP_CLOSES_AT": "2041-01-01T00:00:00Z",
        "VPM_LOG_FORMAT": "console",
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
        "VPM_RELAYER_KEYS": ",".join(f"{lane}={one.private_key}" for lane, one in keys.items()),
    }


def follow_the_seed(dice: random.Random) -> None:
    """Every source of chance in this process draws from the seed from now on."""
    random.seed(dice.getrandbits(64))
    draw = random.Random(dice.getrandbits(64))
    os.urandom = draw.randbytes
    random._urandom = draw.randbytes  # type: ignore[attr-defined]


@dataclass
class Weather:
    """How rough a seed is: drawn from it, so that some are calm and some are not."""

    roughness: float  # share of a node's moods that are bad
    kill_every: int | None  # steps of a process between deaths
    fork_rate: float  # per block
    break_rate: float  # per connection
    pace: float  # seconds between bets
    spare: str | None  # a second process of a daemon

    @classmethod
    def of(cls, dice: random.Random) -> Weather:
        return cls(
            dice.choice((0.0, 0.3, 0.6, 0.9)),
            dice.choice((None, 2_000, 5_000, 15_000)),
            dice.choice((0.0, 0.02, 0.08)),
            dice.choice((0.0, 0.0, 0.02, 0.1)),
            dice.choice((1.0, 2.0, 4.0)),
            dice.choice((None, None, None, *SPARES)),
        )


@dataclass
class Told:
    """What is left of a seed."""

    seed: int
    found: list[tuple[str, str]]
    counts: dict[str, int]
    digest: str
    weather: str
    crashes: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    replay: str = ""


class World:
    """Everything of one seed, in this process: there can be one in a process's life."""

    def __init__(self, seed: int, chain_url: str, database_url: str, clock_file: Path, deployments: Path) -> None:
        self.seed = seed
        self.clock = VirtualClock(EPOCH, clock_file)
        self.loop = VirtualLoop(self.clock)
        self.weather = Weather.of(self._dice("weather"))
        self.chain = SimulatedChain(chain_url, self.clock, self._dice("chain"))
        self.network = Network(self.loop, self._dice("network"))
        for name in [name for name in os.environ if name.startswith("VPM_")]:
            del os.environ[name]  # no seed says what this machine has set
        os.environ.update(environment(database_url, deployments))
        self.database = SimulatedDatabase(database_url, self.loop, self.clock, self._dice("database"))
        self.fleet = Fleet(self._dice("fleet"), self.weather.kill_every)
        self.truth = Truth(self.chain, load_deployment(deployments / "base.json"))
        bettors = [wallet(f"simulated bettor {n}") for n in range(6)]
        url = f"http://127.0.0.1:{API_PORT}"
        self.crowd = Crowd(
            url,
            self.clock,
            self._dice("crowd"),
            bettors,
            judge=self.truth.answer,
            judge_receipt=self.truth.receipt,
        )
        self.nodes = [
            # Of the two nodes one leaves no log out: the indexer proves no block by two that lie alike.
            SimulatedNode(self.chain, self._dice(f"node {port}"), is_whole=port != NODE_PORTS[0])
            for port in NODE_PORTS
        ]
        self.honest = SimulatedNode(self.chain, self._dice("honest"))
        self._tasks: list[asyncio.Task[None]] = []
        self._database_url = database_url
        self._changing: list[asyncio.Task[None]] = []
        self.tells = False  # how it goes, every ten seconds

    def _dice(self, of: str) -> random.Random:
        return random.Random(f"{self.seed} {of}")

    def run(self) -> Told:
        follow_the_seed(self._dice("everything else"))
        install(self.clock)
        self.truth.mint([each.address for each in self.crowd.wallets], BEGAN_WITH)
        self.chain.begin()
        asyncio.set_event_loop(self.loop)
        judgement = self.loop.run_until_complete(self._live())
        if self.loop.trace_file is not None:
            self.loop.trace_file.close()
        digest = hashlib.sha256(self.loop.trace.digest() + repr(judgement.found).encode()).hexdigest()[:16]
        return Told(
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
        if self.tells:
            self.chain.after_block = self._progress  # a task of its own would wake the loop, and change the world
        self.fleet.start(*DAEMONS, *filter(None, (self.weather.spare,)))
        with inside(Process("clients")):
            async with aiohttp.ClientSession() as self.crowd.session:
                await self._story()
                self.fleet.stopping = True
                judge = Judge(self.truth, self.crowd, self._database_url, BEGAN_WITH)
                judgement = await judge.all(f"http://127.0.0.1:{CHAIN_PORT}")
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
        if not self.crowd.bets and not self.fleet.kills and not self.chain.forks:
            judgement.against(RAN, "nobody bet, though no process died and no block was undone")
        for each in sorted(set(self.fleet.misconfigured)):
            judgement.against(RAN, f"{each} refused its settings")
        return judgement

    async def _story(self) -> None:
        """The first market is listed; bets are made while everything goes wrong; calm; the round's readings;
        settlement and payouts, rough again; calm until all is done."""
        while not self.database.ask("SELECT 1 FROM agent_market") and self.clock.elapsed < BETTING_SECONDS / 2:
            await asyncio.sleep(0.5)
        self._storm()
        betting = asyncio.create_task(self.crowd.play(self.weather.pace))
        looking = asyncio.create_task(self.crowd.look(2.0))
        await self._until(BETTING_SECONDS + 5)
        await _ended(betting)
        self._calm()
        while any(each.told is Outcome.WAITING for each in self.crowd.bets) and self.clock.elapsed < MEASURED_FROM - 10:
            await asyncio.sleep(2)
        await self._sleep_until(MEASURED_FROM - 6)
        await self._until(MEASURED_FROM + 5)
        await self._sleep_until(MEASURED_UNTIL - 3)
        await self._until(MEASURED_UNTIL + 5)
        await self._sleep_until(SETTLES_AFTER - 2)
        self._storm()
        await self._until(SETTLES_AFTER + 20)
        self._calm()
        for _ in range(60):
            await asyncio.sleep(2)
            if self._is_over():
                break
        await asyncio.sleep(6)
        await _ended(looking)

    def _progress(self) -> None:
        if self.chain.head % 5:
            return
        waiting = sum(1 for each in self.crowd.bets if each.told is Outcome.WAITING)
        print(
            f"  {self.clock.elapsed:.0f} s: {sum(os.times()[:2]):.1f} s of processor, {self.fleet.kills} kills,"
            f" {self.chain.forks} forks, {len(self.crowd.bets)} bets, {waiting} waiting",
            file=sys.stderr,
            flush=True,
        )

    def _is_over(self) -> bool:
        if any(each.told is Outcome.WAITING for each in self.crowd.bets):
            return False
        rows = self.database.ask(
            "SELECT (SELECT count(*) FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent')),"
            " (SELECT count(*) FROM agent_market WHERE unpaid > 0),"
            " (SELECT count(*) FROM agent_market WHERE status = 1 AND stakes > 0 AND settles_after < %s),"
            " (SELECT max(number) FROM chain_cursor)",
            int(self.clock.now),
        )
        for each in self.crowd.betting:
            if each.done():
                each.result()
        return bool(rows[0][:3] == (0, 0, 0) and rows[0][3] is not None and rows[0][3] >= self.chain.head - 1)

    def _storm(self) -> None:
        weather = self.weather
        self.fleet.kill_every = weather.kill_every
        self.fleet.redraw()
        self.chain.fork_rate = weather.fork_rate
        self.network.break_rate = weather.break_rate
        self._changing = [asyncio.create_task(each.change(weather.roughness)) for each in self.nodes]

    def _calm(self) -> None:
        self.fleet.calm()
        self.chain.fork_rate = self.network.break_rate = 0.0
        for task in self._changing:
            task.cancel()
        for node in self.nodes:
            node.mood = WELL

    async def _until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, second - self.clock.elapsed))

    async def _sleep_until(self, second: float) -> None:
        """The whole machine is suspended, and the chain makes no block: everything wakes up late, at once."""
        self.clock.advance(max(0.0, second - self.clock.elapsed))
        await asyncio.sleep(0)

    async def _in(self, name: str, work: object) -> None:
        with inside(Process(name)):
            await asyncio.create_task(work)  # type: ignore[arg-type]

    def _spawn(self, work: object) -> None:
        self._tasks.append(asyncio.create_task(work))  # type: ignore[arg-type]


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    results = await asyncio.gather(task, return_exceptions=True)
    for error in results:
        if isinstance(error, Exception):
            print(f"a client failed: {error!r}", file=sys.stderr)
            raise error

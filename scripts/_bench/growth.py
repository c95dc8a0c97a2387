"""`./vpm bench growth`: the API over years of history against the same over a day of it, in the same run.

Two databases, filled by COPY: a day (about as many markets as a process holds), and years: 20,000 stock and 100,000
agent markets, a million stakes. Before each runs the real API daemon, and both get a block a second that changes an
open market of either kind. Every read is asked for in turns, of markets and wallets taken at random out of the whole
history: of a day they are in memory, of years in the database. A read may take 1.5 times that of the day, or 5 ms more,
which is no difference that such a machine can show. `--quick`: a twentieth of the history, five reads of each kind.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psycopg

from core.contracts.statuses import AgentMarketStatus
from core.db.engine import conninfo
from core.paths import REPOSITORY
from scripts._bench.harness import (
    Figure,
    fresh_database,
    ground,
    postgres,
    report,
    resident_mb,
    started,
)
from scripts._local.direct import answers
from scripts._local.ports import free_port
from scripts._local.postgres import UNSAFE_BUT_FAST
from scripts._local.process import SpawnPlan
from tests.support.history_fill import (
    BASE_CHAIN,
    STOCK_CHAIN,
    TOKENS,
    HistorySize,
    agent_names,
    fill,
    next_block,
    wallet_of,
    write_deployments,
)

# Fifty stakes a wallet in all of them.
DAY = HistorySize(stock=200, agent=300, stakes=10, positions=5, wallets=60)
YEARS = HistorySize(stock=20_000, agent=100_000, stakes=10, positions=5, wallets=20_000)
QUICK = HistorySize(stock=1_000, agent=5_000, stakes=10, positions=5, wallets=1_000)
BLOCK_SECONDS = 1.0

TARGET_MB = 300.0
TARGET_START_SECONDS = 5.0
TARGET_SEEN_MS = 300.0
TARGET_RATIO = 1.5
NO_DIFFERENCE_MS = 5.0

API = "/api/agent/v1"


@dataclass
class Service:
    """An API process over one of the databases, and what was measured of it. `names`: of its agent markets."""

    name: str
    size: HistorySize
    url: str
    port: int
    names: list[str]
    pid: int = 0
    start_seconds: float = 0.0
    seen_ms: list[float] = field(default_factory=list)
    reads_ms: dict[str, list[float]] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Ask = Callable[[Service, random.Random], str]

READ: dict[str, Ask] = {
    "agent list": lambda _s, _r: f"{API}/markets",
    "agent list, all": lambda _s, r: f"{API}/markets?status=all&limit=10&token={r.choice(TOKENS)}",
    "agent market": lambda s, r: f"{API}/markets/{r.choice(s.names)}",
    "agent research": lambda s, r: f"{API}/markets/{r.choice(s.names)}/research",
    "agent result": lambda s, r: f"{API}/result?marketId={r.choice(s.names)}",
    "agent quote": lambda s, r: f"{API}/quote?marketId={r.choice(s.names[s.size.agent :])}&side=yes&sizeUsd=5",
    "agent discover": lambda _s, r: f"{API}/discover?q={r.choice(TOKENS)}",
    "agent sentiment": lambda _s, r: f"{API}/sentiment?token={r.choice(TOKENS)}",
    "agent positions": lambda s, r: f"{API}/positions?wallet={wallet_of(r.randrange(s.size.wallets))}",
    "agent stats": lambda _s, _r: f"{API}/stats",
    "agent health": lambda _s, _r: f"{API}/health",
    "stock list": lambda _s, _r: "/api/markets",
    "stock page": lambda s, r: f"/api/markets?limit=100&before={r.randrange(101, s.size.stock)}",
    "stock market": lambda s, r: f"/api/markets/{r.randrange(1, s.size.stock)}",
    "stock positions": lambda s, r: f"/api/positions?owner={wallet_of(r.randrange(s.size.wallets))}",
    "stock proof": lambda _s, _r: "/api/proof",
    "home page": lambda _s, _r: "/",
    "stock page of a market": lambda s, r: f"/m/{r.randrange(1, s.size.stock)}",
    "agent page of a market": lambda s, r: f"/markets/{r.choice(s.names)}",
}


def main(*, quick: bool) -> int:
    with ground("growth") as folder, postgres(folder, UNSAFE_BUT_FAST) as server, ExitStack() as stack:
        write_deployments(folder / "deployments")
        sizes = (("a day", DAY), ("years", QUICK if quick else YEARS))
        day, years = (_filled(stack.enter_context(fresh_database(server)), *each) for each in sizes)
        for each in (day, years):
            stack.enter_context(_serving(each, folder))
        asyncio.run(_measure(day, years, 1 if quick else 4, 5 if quick else 50))
        memory = [resident_mb(each.pid) for each in (day, years)]
    rows = [
        Figure("memory, MB", memory[1], memory[0], most=TARGET_MB),
        Figure("start, s", years.start_seconds, day.start_seconds, most=TARGET_START_SECONDS),
        Figure("block to reader, p99 ms", _p99(years.seen_ms), _p99(day.seen_ms), most=TARGET_SEEN_MS),
    ]
    for name in READ:
        ours, bare = (_p99(each.reads_ms[name]) for each in (years, day))
        rows.append(Figure(f"{name}, p99 ms", ours, bare, most=max(TARGET_RATIO * bare, bare + NO_DIFFERENCE_MS)))
    return report("growth", rows)


def _p99(times: list[float]) -> float:
    ordered = sorted(times)
    return ordered[len(ordered) * 99 // 100]


def _filled(url: str, name: str, size: HistorySize) -> Service:
    began = time.perf_counter()
    at = fill(url, size)
    print(f"{name}: {size.rows:,} rows filled in {time.perf_counter() - began:.0f} s", flush=True)
    return Service(name, size, url, free_port(), [each for _, each, *_ in agent_names(size, at)])


@contextmanager
def _serving(service: Service, folder: Path) -> Iterator[None]:
    env = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": service.url,
        "VPM_DEPLOYMENTS_DIR": str(folder / "deployments"),
        "VPM_PORT": str(service.port),
        "VPM_API_METRICS_PORT": "0",
        "VPM_AGENT_ENABLED": "1",
        "VPM_TRUST_PROXY": "1",  # so that each read may come from an address of its own, below every rate limit
        "VPM_LOG_LEVEL": "ERROR",
    }
    plan = SpawnPlan("api", (sys.executable, "-m", "api"), env=env, cwd=str(REPOSITORY))
    paths = (f"{API}/markets", "/api/markets")
    began = time.perf_counter()

    def ready() -> bool:
        return all(answers(f"{service.origin}{path}", 30) for path in paths)

    with started(plan, folder / f"{service.port}.log", ready, 120, f"the API over {service.name}") as running:
        service.pid = running.pid
        service.start_seconds = time.perf_counter() - began
        yield


# ---------------------------------------------------------------- measuring


async def _measure(day: Service, years: Service, rounds: int, reads: int) -> None:
    stop = asyncio.Event()
    blocks = [asyncio.create_task(_blocks(each, stop)) for each in (day, years)]
    try:
        async with (
            aiohttp.ClientSession(day.origin) as first,
            aiohttp.ClientSession(years.origin) as second,
        ):
            rng = random.Random("growth")
            for _ in range(rounds):
                for name, ask in READ.items():
                    for service, session in ((day, first), (years, second)):
                        times = service.reads_ms.setdefault(name, [])
                        for _ in range(reads):
                            times.append(await _read(session, ask(service, rng), rng))
            while min(len(day.seen_ms), len(years.seen_ms)) < rounds * 15:
                await asyncio.sleep(BLOCK_SECONDS)
                for task in blocks:
                    if task.done():
                        task.result()
    finally:
        stop.set()
        await asyncio.gather(*blocks)


async def _read(session: aiohttp.ClientSession, path: str, rng: random.Random) -> float:
    caller = ".".join(str(rng.randrange(1, 250)) for _ in range(4))
    started = time.perf_counter()
    async with session.get(path, headers={"X-Forwarded-For": caller}) as response:
        body = await response.read()
    took = (time.perf_counter() - started) * 1e3
    if response.status != 200:
        raise RuntimeError(f"{path} answered {response.status}: {body[:200]!r}")
    return took


async def _blocks(service: Service, stop: asyncio.Event) -> None:
    """A block a second on both chains; how long until a reader has an open agent market as of that block."""
    path = f"{API}/markets/{service.names[-1]}"
    with psycopg.connect(conninfo(service.url), autocommit=True) as connection:
        async with aiohttp.ClientSession(service.origin) as session:
            while not stop.is_set():
                began = time.perf_counter()
                await asyncio.to_thread(next_block, connection, STOCK_CHAIN, _STOCK_CHANGE)
                await asyncio.to_thread(next_block, connection, BASE_CHAIN, _AGENT_CHANGE)
                row = connection.execute("SELECT number FROM chain_cursor WHERE chain_id = %s", (BASE_CHAIN,))
                number = (row.fetchone() or (0,))[0]
                written = time.perf_counter()
                while True:
                    async with session.get(path) as response:
                        body = await response.json()
                    if body["meta"]["freshness"]["block"] >= number:
                        break
                    await asyncio.sleep(0.002)
                service.seen_ms.append((time.perf_counter() - written) * 1e3)
                await asyncio.sleep(max(0.0, BLOCK_SECONDS - (time.perf_counter() - began)))


_AGENT_CHANGE = (
    "UPDATE agent_market SET staked = staked + 1, updated_block = (SELECT number + 1 FROM chain_cursor"
    f" WHERE chain_id = {BASE_CHAIN}) WHERE market_id = (SELECT market_id FROM agent_market "
    f"WHERE status = {AgentMarketStatus.OPEN:d} LIMIT 1)"
)
_STOCK_CHANGE = (
    "UPDATE stock_market SET fees = fees + 1, updated_block = (SELECT number + 1 FROM chain_cursor"
    f" WHERE chain_id = {STOCK_CHAIN}) WHERE market_id ="
    " (SELECT market_id FROM stock_market WHERE closed_tx IS NULL LIMIT 1)"
)

"""`./vpm bench growth`: the API over years of history against the same over a day of it, in the same run.

Two databases, filled by COPY: a day (about as many markets as a process holds), and years: 20,000 stock and 100,000
agent markets, a million stakes; with `--long` ten years: 300,000 agent markets and 20 million stakes and positions.
Before each runs the real API daemon, and both get a block a second that changes an open market of either kind. Every
read is asked for in turns, of markets and wallets taken at random out of the whole history: of a day they are in
memory, of years in the database. A wallet has as many bets in both. Targets over years of it: 300 MB, started within 5
seconds, a block seen by a reader within 300 ms at the 99th percentile, and every read's 99th percentile at most 1.5
times that of the day (less than 5 ms more is no difference that such a machine can show).

`--long` then makes the blocks of twelve hours, one a second, as fast as they can be made, with a read of every kind in
each minute of them, and tells the memory of each hour. Target: 300 MB, and over the last eight hours no more than 5% of
growth.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import statistics
import subprocess
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
from core.db.migrate import migrate
from core.local.ports import free_port
from core.local.postgres import UNSAFE_BUT_FAST, PostgresServer
from core.paths import REPOSITORY
from scripts._bench.ground import ground, keep, postgres
from scripts._bench.growth_fill import (
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
from scripts._bench.processes import resident_mb

# Fifty stakes a wallet in all of them.
DAY = HistorySize(stock=200, agent=300, stakes=10, positions=5, wallets=60)
YEARS = HistorySize(stock=20_000, agent=100_000, stakes=10, positions=5, wallets=20_000)
TEN_YEARS = HistorySize(stock=20_000, agent=300_000, stakes=60, positions=100, wallets=360_000)
ROUNDS, READS = 4, 50
SOAK_HOURS, SETTLED_IN_HOURS = 12, 4
LONG = {"size": TEN_YEARS, "soak_hours": SOAK_HOURS}
BLOCKS = 60
BLOCK_SECONDS = 1.0

TARGET_MB = 300.0
TARGET_START_SECONDS = 5.0
TARGET_SEEN_MS = 300.0
TARGET_RATIO = 1.5
TARGET_SOAK = 1.05
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
    started_mb: float = 0.0
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


def main(json_path: Path | None, *, size: HistorySize = YEARS, soak_hours: int = 0) -> int:
    soaked: list[float] = []
    with ground("growth") as folder, postgres(folder, UNSAFE_BUT_FAST) as (server, _), ExitStack() as stack:
        write_deployments(folder / "deployments")
        day, years = (_filled(server, each, size) for each, size in (("a day", DAY), ("years", size)))
        for each in (day, years):
            stack.enter_context(_serving(each, folder))
        asyncio.run(_measure(day, years))
        memory = {each.name: resident_mb(each.pid) for each in (day, years)}
        if soak_hours:
            soaked = asyncio.run(_soak(years, soak_hours))
    return _report(day, years, memory, soaked, json_path)


def _filled(server: PostgresServer, name: str, size: HistorySize) -> Service:
    database = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    url = server.url(database)
    migrate(url)
    started = time.perf_counter()
    at = fill(url, size)
    took = time.perf_counter() - started
    print(f"{name}: {size.rows:,} rows filled in {took:.0f} s", flush=True)
    return Service(name, size, url, free_port(), [each for _, each, *_ in agent_names(size, at)])


@contextmanager
def _serving(service: Service, folder: Path) -> Iterator[None]:
    environment = {
        **os.environ,
        "DATABASE_URL": service.url,
        "VPM_DEPLOYMENTS_DIR": str(folder / "deployments"),
        "VPM_PORT": str(service.port),
        "VPM_API_METRICS_PORT": "0",
        "VPM_AGENT_ENABLED": "1",
        "VPM_TRUST_PROXY": "1",  # so that each read may come from an address of its own, below every rate limit
        "VPM_LOG_LEVEL": "ERROR",
        "VPM_PARENT_PID": str(os.getpid()),
    }
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "api"], cwd=REPOSITORY, env=environment)
    try:
        service.pid = process.pid
        asyncio.run(_until_ready(service, process))
        service.start_seconds = time.perf_counter() - started
        service.started_mb = resident_mb(process.pid)
        yield
    finally:
        process.terminate()
        process.wait(30)


async def _until_ready(service: Service, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(120), aiohttp.ClientSession(service.origin) as session:
        for path in (f"{API}/markets", "/api/markets"):
            while True:
                if process.poll() is not None:
                    raise RuntimeError(f"the API over {service.name} ended with {process.returncode}")
                try:
                    async with session.get(path) as response:
                        await response.read()
                        if response.status == 200:
                            break
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.02)


# ---------------------------------------------------------------- measuring


async def _measure(day: Service, years: Service) -> None:
    stop = asyncio.Event()
    blocks = [asyncio.create_task(_blocks(each, stop)) for each in (day, years)]
    try:
        async with (
            aiohttp.ClientSession(day.origin) as first,
            aiohttp.ClientSession(years.origin) as second,
        ):
            rng = random.Random("growth")
            for _ in range(ROUNDS):
                for name, ask in READ.items():
                    for service, session in ((day, first), (years, second)):
                        times = service.reads_ms.setdefault(name, [])
                        for _ in range(READS):
                            times.append(await _read(session, ask(service, rng), rng))
            while min(len(day.seen_ms), len(years.seen_ms)) < BLOCKS:
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


async def _soak(service: Service, hours: int) -> list[float]:
    """The memory after each hour of blocks, MB."""
    memory = []
    rng = random.Random("soak")
    with psycopg.connect(conninfo(service.url), autocommit=True) as connection:
        async with aiohttp.ClientSession(service.origin) as session:
            for _ in range(hours):
                for _ in range(60):
                    for _ in range(60):
                        await asyncio.to_thread(next_block, connection, STOCK_CHAIN, _STOCK_CHANGE)
                        await asyncio.to_thread(next_block, connection, BASE_CHAIN, _AGENT_CHANGE)
                    for ask in READ.values():
                        await _read(session, ask(service, rng), rng)
                memory.append(resident_mb(service.pid))
    return memory


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


# ---------------------------------------------------------------- reporting


def _percentile(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _report(day: Service, years: Service, memory: dict[str, float], soaked: list[float], json_path: Path | None) -> int:
    rows: list[tuple[str, float, float, bool]] = [
        ("memory at start, MB", day.started_mb, years.started_mb, years.started_mb <= TARGET_MB),
        ("memory at the end, MB", memory[day.name], memory[years.name], memory[years.name] <= TARGET_MB),
        ("start, s", day.start_seconds, years.start_seconds, years.start_seconds <= TARGET_START_SECONDS),
    ]
    seen = [_percentile(each.seen_ms, 0.99) for each in (day, years)]
    rows.append(("block to reader, p99 ms", seen[0], seen[1], seen[1] <= TARGET_SEEN_MS))
    for name in READ:
        ours = [_percentile(each.reads_ms[name], 0.99) for each in (day, years)]
        close = ours[1] <= max(TARGET_RATIO * ours[0], ours[0] + NO_DIFFERENCE_MS)
        rows.append((f"{name}, p99 ms", ours[0], ours[1], close))
    middles = {f"{name}, p99 ms": [_percentile(each.reads_ms[name], 0.5) for each in (day, years)] for name in READ}
    print(f"{'':<34}{'a day':>10}{'years':>10}{'ratio':>8}{'median:':>10}{'a day':>7}{'years':>7}")
    for label, small, large, holds in rows:
        middle = "".join(f"{each:>{width}.1f}" for each, width in zip(middles.get(label, ()), (17, 7), strict=False))
        print(f"{label:<34}{small:>10.1f}{large:>10.1f}{large / small:>8.2f}{middle}{'' if holds else '  MISSED'}")
    size = years.size
    print(
        f"Years: {size.stock:,} stock and {size.agent:,} agent markets, {size.agent * size.stakes:,} stakes, "
        f"{size.stock * size.positions:,} positions; {ROUNDS * READS} reads of each kind, "
        f"{len(years.seen_ms)} blocks."
    )
    good = all(holds for *_, holds in rows)
    if soaked:
        flat = max(soaked) <= TARGET_MB and soaked[-1] <= TARGET_SOAK * soaked[SETTLED_IN_HOURS - 1]
        good &= flat
        print(
            "Memory after each hour of blocks, MB:",
            ", ".join(f"{each:.0f}" for each in soaked),
            "" if flat else "MISSED",
        )
    figures = [{"what": label, "day": small, "years": large, "met": holds} for label, small, large, holds in rows]
    of_day = {label: large / small for label, small, large, _ in rows}
    ratios = {
        f"{what}, years / a day": of_day[what]
        for what in ("memory at the end, MB", "start, s", "block to reader, p99 ms")
    }
    ratios["a read, median of the kinds' medians, years / a day"] = statistics.median(
        b / a for a, b in middles.values()
    )
    keep(json_path, {"bench": "growth", "figures": figures, "ratios": ratios})
    return 0 if good else 1

"""`./vpm bench growth`: measures every API read with years of history and with a day of history, alternating between
the two. All markets of the short history are in memory; most markets of the long one are not. Both histories grow by a
block a second. `--quick` uses a twentieth of the history and five reads of each kind."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psycopg

from core.contracts.statuses import AgentMarketStatus
from core.db.engine import conninfo
from scripts._bench.harness import Figure, fresh_database, postgres, resident_mb, timed
from scripts._bench.http_load import p99
from scripts._local.ports import answers
from scripts._local.postgres import UNSAFE_BUT_FAST, PostgresServer
from scripts._local.process import wait_until
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
from tests.support.service import Service, serving

# Each has fifty stakes a wallet.
DAY = HistorySize(stock=200, agent=300, stakes=10, positions=5, wallets=60)
YEARS = HistorySize(stock=20_000, agent=100_000, stakes=10, positions=5, wallets=20_000)
QUICK = HistorySize(stock=1_000, agent=5_000, stakes=10, positions=5, wallets=1_000)
BLOCK_SECONDS = 1.0

TARGET_MB = 300.0
TARGET_START_SECONDS = 5.0
TARGET_SEEN_MS = 300.0
TARGET_RATIO = 1.5
NEGLIGIBLE_MS = 5.0

API = "/api/agent/v1"


@dataclass
class History:
    """A filled database, its API, and the measurements taken on it. `names` are the names of its agent markets."""

    size: HistorySize
    database_url: str
    names: list[str]
    api: Service[None]
    seen_ms: list[float] = field(default_factory=list)
    reads_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


Ask = Callable[[History, random.Random], str]

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


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    write_deployments(folder)
    with postgres(folder, UNSAFE_BUT_FAST) as server, ExitStack() as stack:
        sizes = (("a day", DAY), ("years", QUICK if quick else YEARS))
        day, years = both = [stack.enter_context(_filled(server, folder, *each)) for each in sizes]
        start = [_start_seconds(each.api) for each in both]
        asyncio.run(_measure(day, years, 1 if quick else 4, 5 if quick else 50))
        memory = [resident_mb(each.api.running["api"].pid) for each in both]
    rows = [
        Figure("memory, MB", memory[1], memory[0], most=TARGET_MB),
        Figure("start, s", start[1], start[0], most=TARGET_START_SECONDS),
        Figure("block to reader, p99 ms", p99(years.seen_ms), p99(day.seen_ms), most=TARGET_SEEN_MS),
    ]
    for name in READ:
        bare, ours = (p99(each.reads_ms[name]) for each in both)
        rows.append(Figure(f"{name}, p99 ms", ours, bare, most=max(TARGET_RATIO * bare, bare + NEGLIGIBLE_MS)))
    return rows


@contextmanager
def _filled(server: PostgresServer, folder: Path, name: str, size: HistorySize) -> Iterator[History]:
    # The default pool size, which tests reduce.
    env = {"VPM_AGENT_ENABLED": "1", "VPM_DATABASE_POOL_SIZE": "6", "VPM_LOG_LEVEL": "ERROR"}
    with fresh_database(server) as url, serving(Service, None, url, folder, folder / name, env) as api:
        began = time.perf_counter()
        at = fill(url, size)
        print(f"{name}: {size.rows:,} rows filled in {time.perf_counter() - began:.0f} s", flush=True)
        yield History(size, url, [each for _, each, *_ in agent_names(size, at)], api)


def _start_seconds(api: Service[None]) -> float:
    began = time.perf_counter()
    api.start("api")
    paths = (f"{API}/markets", "/api/markets")
    wait_until(lambda: all(answers(api.url + path, 30) for path in paths), api.running["api"], 120, "the API")
    return time.perf_counter() - began


async def _measure(day: History, years: History, rounds: int, reads: int) -> None:
    stop = asyncio.Event()
    blocks = [asyncio.create_task(_blocks(each, stop)) for each in (day, years)]
    try:
        async with aiohttp.ClientSession(day.api.url) as first, aiohttp.ClientSession(years.api.url) as second:
            rng = random.Random("growth")
            for name, ask in list(READ.items()) * rounds:
                for history, session in ((day, first), (years, second)):
                    for _ in range(reads):
                        await _read(session, ask(history, rng), rng, history.reads_ms[name])
            while min(len(day.seen_ms), len(years.seen_ms)) < rounds * 15:
                await asyncio.sleep(BLOCK_SECONDS)
                for task in blocks:
                    if task.done():
                        task.result()
    finally:
        stop.set()
        await asyncio.gather(*blocks)


async def _read(session: aiohttp.ClientSession, path: str, rng: random.Random, times: list[float]) -> None:
    caller = ".".join(str(rng.randrange(1, 250)) for _ in range(4))  # random, to stay below every rate limit
    with timed(times):
        async with session.get(path, headers={"X-Forwarded-For": caller}) as response:
            body = await response.read()
    if response.status != 200:
        raise RuntimeError(f"{path} returned {response.status}: {body[:200]!r}")


async def _blocks(history: History, stop: asyncio.Event) -> None:
    """Mine a block a second on both chains, and measure how long the API takes to show each block."""
    path = f"{API}/markets/{history.names[-1]}"
    with psycopg.connect(conninfo(history.database_url), autocommit=True) as connection:
        async with aiohttp.ClientSession(history.api.url) as session:
            while not stop.is_set():
                began = time.perf_counter()
                await asyncio.to_thread(next_block, connection, STOCK_CHAIN, _STOCK_CHANGE)
                number = await asyncio.to_thread(next_block, connection, BASE_CHAIN, _AGENT_CHANGE)
                with timed(history.seen_ms):
                    while await _block_shown(session, path) < number:
                        await asyncio.sleep(0.002)
                await asyncio.sleep(max(0.0, BLOCK_SECONDS - (time.perf_counter() - began)))


async def _block_shown(session: aiohttp.ClientSession, path: str) -> int:
    async with session.get(path) as response:
        return int((await response.json())["meta"]["freshness"]["block"])


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

"""`./vpm bench index`: the indexer against a bare fetch-decode-COPY loop, and how soon readers see a new block.

History: 200,000 events of stock markets in blocks of about a hundred. The bare loop and the indexer take turns on the
same chain and database server; the indexer writes raw logs, blocks, projections and the cursor. Targets: at least 30%
of the bare loop's rate, less than 300 MB of memory; and 50,000 events a second for a rebuild, which folds what the
indexer wrote again from its raw logs. Then a quarter as many events of agent markets, each stake with its payment: the
token's logs are paired, and every market is joined from three contracts.

Head: the daemon itself, as production runs it, while 50 events a second arrive. Measured from the moment the node
announces a block until a reader's query, made at the signal, finds it. Target: 300 ms at the 99th percentile.
`--quick`: a twentieth of the events, one round, ten seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson
import psycopg

from core.chain.provider import ChainProvider
from core.contracts.deployments import write_deployment
from core.db.channels import CHAIN_INDEXED, IndexStep
from core.db.engine import connect, conninfo
from core.db.migrate import migrate
from core.paths import REPOSITORY
from core.service.cancelling import end
from scripts._bench.harness import Figure, ground, network, postgres, report
from scripts._local.anvil import AnvilOptions, start_anvil
from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer
from tests.support.index_load import (
    CHAIN_ID,
    LISTER,
    RESOLVER,
    SETTLER,
    TOKEN,
    WALLET,
    AgentVenue,
    LoadVenue,
    emit,
    place_emitter,
)

HEAD_BLOCK_SECONDS = 0.25
HEAD_EVENTS_PER_SECOND = 50

TARGET_RATIO = 0.30
TARGET_REBUILD = 50_000
TARGET_MB = 300.0
TARGET_P99_MS = 300.0


@dataclass(frozen=True)
class IndexRun:
    """One indexing of a history: how many events, in what time and memory."""

    events: int
    seconds: float
    peak_bytes: int

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def main(json_path: Path | None, *, quick: bool) -> int:
    events, rounds, seconds = (10_000, 1, 10.0) if quick else (200_000, 3, 45.0)
    with ground("index") as folder, postgres(folder) as server:
        bare, index, rebuilt = asyncio.run(_history(server, folder, events, rounds))
        agent = asyncio.run(_agent_history(server, folder, events // 4, rounds))
        latencies = asyncio.run(_head(server, folder, seconds))
    rates = [statistics.median(run.rate for run in runs) for runs in (bare, index, rebuilt, agent)]
    peak = max(run.peak_bytes for run in [*index, *rebuilt, *agent]) / 1e6
    p99 = sorted(latencies)[len(latencies) * 99 // 100] * 1000
    rows = [
        Figure("indexer, everything written, events/s", rates[1], rates[0], least_ratio=TARGET_RATIO),
        Figure("rebuilt from the raw logs, events/s", rates[2], rates[0], least=TARGET_REBUILD),
        Figure("indexer, agent markets, events/s", rates[3], rates[0]),
        Figure("peak memory, MB", peak, most=TARGET_MB),
        Figure("new block to reader, p99 ms", p99, most=TARGET_P99_MS),
    ]
    return report("index", rows, json_path)


# ---------------------------------------------------------------- history


async def _history(
    server: PostgresServer, folder: Path, events: int, rounds: int
) -> tuple[list[IndexRun], list[IndexRun], list[IndexRun]]:
    """Run the bare loop, the indexer, and a rebuild of what it wrote, in turns."""
    async with _chain(folder, None) as options:
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            made = await _emitted(rpc, LoadVenue(), events, SETTLER)
        bare: list[IndexRun] = []
        index: list[IndexRun] = []
        rebuilt: list[IndexRun] = []
        for _ in range(rounds):
            with _database(server) as url:
                bare.append(_child("bare", options.url, url, made))
            with _database(server) as url:
                index.append(_child("index", options.url, url, made))
                rebuilt.append(_child("rebuild", options.url, url, made))
    return bare, index, rebuilt


async def _agent_history(server: PostgresServer, folder: Path, events: int, rounds: int) -> list[IndexRun]:
    async with _chain(folder, None) as options:
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            await place_emitter(rpc, (WALLET, RESOLVER, LISTER, TOKEN))
            made = await _emitted(rpc, AgentVenue(), events, WALLET)
        runs = []
        for _ in range(rounds):
            with _database(server) as url:
                runs.append(_child("agent", options.url, url, made))
    return runs


async def _emitted(rpc: ChainProvider, venue: LoadVenue | AgentVenue, least: int, to: str) -> int:
    """How many events were made, in whole blocks from the first on, until there were so many."""
    number = made = 0
    while made < least:
        number += 1
        records = venue.block(number)
        await emit(rpc, records, to=to)
        made += len(records)
    return made


def _child(what: str, rpc_url: str, database_url: str, made: int) -> IndexRun:
    done = subprocess.run(
        [sys.executable, "-m", "scripts._bench.index_child", what, rpc_url, database_url],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the {what} run failed:\n{done.stderr[-3000:]}")
    run = IndexRun(**json.loads(done.stdout))
    if run.events != made:
        raise RuntimeError(f"{what} saw {run.events} of {made} events")
    return run


# ---------------------------------------------------------------- head


async def _head(server: PostgresServer, folder: Path, seconds: float) -> list[float]:
    """Seconds from a block's announcement until a reader saw it, for every block of the run."""
    async with _chain(folder, HEAD_BLOCK_SECONDS) as options:
        with _database(server) as url:
            daemon = _start_daemon(folder, options, url)
            try:
                return await _watch(options, url, seconds)
            finally:
                daemon.terminate()
                daemon.wait(30)


async def _watch(options: AnvilOptions, url: str, seconds: float) -> list[float]:
    announced: dict[int, float] = {}
    seen: dict[int, float] = {}
    async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
        await _until_indexed(url)
        tasks = [
            asyncio.create_task(_announcements(options.ws_url, announced)),
            asyncio.create_task(_reader(url, seen)),
            asyncio.create_task(_traffic(rpc)),
        ]
        await asyncio.sleep(2)
        first = max(announced)
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        last = max(announced)
        await asyncio.sleep(2)
        await end(*tasks)
        for task in done:
            task.result()
    return [seen[number] - announced[number] for number in range(first + 1, last) if number in announced]


async def _announcements(ws_url: str, announced: dict[int, float]) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(ws_url) as socket:
        await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]})
        async for message in socket:
            now = time.perf_counter()
            news = orjson.loads(message.data)
            if news.get("method") == "eth_subscription":
                announced[int(news["params"]["result"]["number"], 16)] = now


async def _reader(url: str, seen: dict[int, float]) -> None:
    listener = await connect(url)
    reader = await connect(url)
    await listener.execute(f"LISTEN {CHAIN_INDEXED.name}")
    highest = 0
    async for signal in listener.notifies():
        step = CHAIN_INDEXED.read(signal.payload)
        assert isinstance(step, IndexStep)
        row = await (
            await reader.execute("SELECT number, (SELECT max(entered_block) FROM stock_position) FROM chain_cursor")
        ).fetchone()
        now = time.perf_counter()
        assert row is not None
        assert row[0] >= step.block
        for number in range(highest + 1, row[0] + 1):
            seen[number] = now
        highest = max(highest, row[0])


async def _traffic(rpc: ChainProvider) -> None:
    venue, number = LoadVenue(seed=2), 0
    while True:
        number += 1
        started = time.perf_counter()
        records = venue.block(number, entries=9)
        await emit(rpc, records, mine=False)
        await asyncio.sleep(max(0.0, len(records) / HEAD_EVENTS_PER_SECOND - (time.perf_counter() - started)))


async def _until_indexed(url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            with psycopg.connect(conninfo(url)) as connection:
                row = connection.execute("SELECT number FROM chain_cursor").fetchone()
            if row is not None and row[0] >= 1:
                return
            await asyncio.sleep(0.2)


def _start_daemon(folder: Path, options: AnvilOptions, url: str) -> subprocess.Popen[bytes]:
    deployments = folder / "deployments"
    settler = network("stock", CHAIN_ID, "USDG", {"VestedMarkets": SETTLER})
    write_deployment(settler, deployments / "stock.json")
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "VPM_STOCK_RPC_URLS": options.url,
        "VPM_STOCK_WS_URLS": options.ws_url,
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_INDEXER_METRICS_PORT": "0",
        "VPM_LOG_LEVEL": "WARNING",
        "VPM_PARENT_PID": str(os.getpid()),
    }
    return subprocess.Popen([sys.executable, "-m", "indexer"], cwd=REPOSITORY, env=environment)


# ---------------------------------------------------------------- shared


@asynccontextmanager
async def _chain(folder: Path, block_seconds: float | None) -> AsyncIterator[AnvilOptions]:
    options = AnvilOptions(
        chain_id=CHAIN_ID,
        port=free_port(),
        block_time_seconds=block_seconds,
        mine_on_demand=block_seconds is None,
        gas_limit=2**50,
        extra=("--hardfork", "cancun", "--quiet"),
    )
    running = start_anvil(options, folder / "anvil.log")
    try:
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            await place_emitter(rpc)
        yield options
    finally:
        running.stop()


@contextmanager
def _database(server: PostgresServer) -> Iterator[str]:
    name = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    try:
        migrate(server.url(name))
        yield server.url(name)
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

"""`./vpm bench index`: the indexer against a bare fetch-decode-COPY loop, and how soon readers see a new block.

History: 200,000 events of stock markets in blocks of about a hundred. The bare loop and the indexer take turns on the
same chain and database server; the indexer writes raw logs, blocks, projections and the cursor. Targets: at least 30%
of the bare loop's rate, less than 300 MB of memory; and 50,000 events a second for a rebuild, which folds what the
indexer wrote again from its raw logs. Then a quarter as many events of agent markets, each stake with its payment: the
token's logs are paired, and every market is joined from three contracts.

Sparse: ten million blocks with 20,000 events behind a node that answers after 100 ms and gives 10,000 blocks at most.
Beside it: the logs of each range asked for one after the other, and nothing kept. Target: indexed within five minutes.

Head: the daemon itself, as production runs it, while 50 events a second arrive. Measured from the moment the node
announces a block until a reader's query, made at the signal, finds it. Target: 300 ms at the 99th percentile.
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
from functools import partial
from pathlib import Path

import aiohttp
import orjson
import psycopg

from core.chain.provider import ChainProvider
from core.contracts.deployments import write_deployment
from core.db.channels import CHAIN_INDEXED, IndexStep
from core.db.engine import connect, conninfo
from core.db.migrate import migrate
from core.local.anvil import AnvilOptions, start_anvil
from core.local.ports import free_port
from core.local.postgres import PostgresServer
from core.local.process import SpawnPlan
from core.paths import REPOSITORY
from core.service.cancelling import end
from scripts._bench.ground import ground, keep, listens, network, postgres, started
from scripts._bench.index_child import CHAIN_ID
from scripts._bench.index_load import (
    LISTER,
    RESOLVER,
    SETTLER,
    TOKEN,
    WALLET,
    AgentVenue,
    Elsewhere,
    LoadVenue,
    emit,
    place_emitter,
)

EVENTS = int(os.environ.get("VPM_BENCH_EVENTS", "200000"))
AGENT_EVENTS = EVENTS // 4
SPARSE_BLOCKS = int(os.environ.get("VPM_BENCH_SPARSE_BLOCKS", "10000000"))
SPARSE_EVENTS = SPARSE_BLOCKS // 500
ROUNDS = 3
HEAD_SECONDS = float(os.environ.get("VPM_BENCH_HEAD_SECONDS", "45"))
HEAD_BLOCK_SECONDS = 0.25
HEAD_EVENTS_PER_SECOND = 50

TARGET_RATIO = 0.30
TARGET_REBUILD = 50_000
TARGET_BYTES = 300 * 10**6
TARGET_P99_MS = 300.0
TARGET_SPARSE_SECONDS = 300.0


@dataclass(frozen=True)
class IndexRun:
    """One indexing of a history: how many events, in what time and memory."""

    events: int
    seconds: float
    processor_seconds: float
    """Of this process alone, without the node's and the database's."""
    peak_bytes: int

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def main(json_path: Path | None) -> int:
    with ground("index") as folder, postgres(folder) as (server, _):
        bare, index, rebuilt = asyncio.run(_history(server, folder))
        agent = asyncio.run(_agent_history(server, folder))
        asked, sparse = _sparse_history(server, folder)
        latencies = asyncio.run(_head(server, folder))
    return _report(bare, index, rebuilt, agent, (asked, sparse), latencies, json_path)


# ---------------------------------------------------------------- history


async def _history(server: PostgresServer, folder: Path) -> tuple[list[IndexRun], list[IndexRun], list[IndexRun]]:
    """The bare loop, the indexer, and a rebuild of what it wrote."""
    async with _chain(folder, None) as options:
        print(f"making {EVENTS:,} events ...", flush=True)
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            made = await _emitted(rpc, LoadVenue(), EVENTS, SETTLER)
        bare: list[IndexRun] = []
        index: list[IndexRun] = []
        rebuilt: list[IndexRun] = []
        for _ in range(ROUNDS):
            for what, runs in (("bare", bare), ("index", index)):
                with _database(server) as url:
                    runs.append(_child(what, options.url, url))
                    if what == "index":
                        rebuilt.append(_child("rebuild", options.url, url))
                if runs[-1].events != made:
                    raise RuntimeError(f"{what} saw {runs[-1].events} of {made} events")
    return bare, index, rebuilt


async def _agent_history(server: PostgresServer, folder: Path) -> list[IndexRun]:
    async with _chain(folder, None) as options:
        print(f"making {AGENT_EVENTS:,} events of agent markets ...", flush=True)
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            await place_emitter(rpc, (WALLET, RESOLVER, LISTER, TOKEN))
            made = await _emitted(rpc, AgentVenue(), AGENT_EVENTS, WALLET)
        runs = []
        for _ in range(ROUNDS):
            with _database(server) as url:
                runs.append(_child("agent", options.url, url))
            if runs[-1].events != made:
                raise RuntimeError(f"the indexer saw {runs[-1].events} of {made} events of agent markets")
    return runs


async def _emitted(rpc: ChainProvider, venue: LoadVenue | AgentVenue, least: int, to: str) -> int:
    """How many events were made, in whole blocks from the first on, until there were so many."""
    number = made = 0
    while made < least:
        number += 1
        records = venue.block(number)
        await emit(rpc, records, to=to)
        made += sum(len(each.records) if isinstance(each, Elsewhere) else 1 for each in records)
    return made


def _sparse_history(server: PostgresServer, folder: Path) -> tuple[IndexRun, IndexRun]:
    """The bare questions, and the indexer, over a long chain far away."""
    print(f"{SPARSE_EVENTS:,} events in {SPARSE_BLOCKS:,} blocks of a node far away ...", flush=True)
    port = free_port()
    argv = (sys.executable, "-m", "scripts._bench.index_sparse", str(port), str(SPARSE_BLOCKS), str(SPARSE_EVENTS))
    plan = SpawnPlan("sparse node", argv, env=os.environ, cwd=str(REPOSITORY))
    with started(plan, folder / "sparse.log", partial(listens, port), 60, "the sparse node"):
        url = f"http://127.0.0.1:{port}"
        with _database(server) as database:
            asked = _child("asked", url, database)
        with _database(server) as database:
            sparse = _child("index", url, database)
    if sparse.events != asked.events or asked.events < SPARSE_EVENTS:
        raise RuntimeError(f"the indexer saw {sparse.events} events of a sparse chain, its node gave {asked.events}")
    return asked, sparse


def _child(what: str, rpc_url: str, database_url: str) -> IndexRun:
    done = subprocess.run(
        [sys.executable, "-m", "scripts._bench.index_child", what, rpc_url, database_url],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the {what} run failed:\n{done.stderr[-3000:]}")
    return IndexRun(**json.loads(done.stdout))


# ---------------------------------------------------------------- head


async def _head(server: PostgresServer, folder: Path) -> list[float]:
    """Seconds from a block's announcement until a reader saw it, for every block of the run."""
    async with _chain(folder, HEAD_BLOCK_SECONDS) as options:
        with _database(server) as url:
            daemon = _start_daemon(folder, options, url)
            try:
                return await _watch(options, url)
            finally:
                daemon.terminate()
                daemon.wait(30)


async def _watch(options: AnvilOptions, url: str) -> list[float]:
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
        done, _ = await asyncio.wait(tasks, timeout=HEAD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
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


def _report(
    bare: list[IndexRun],
    index: list[IndexRun],
    rebuilt: list[IndexRun],
    agent: list[IndexRun],
    far: tuple[IndexRun, IndexRun],
    latencies: list[float],
    json_path: Path | None,
) -> int:
    bare_rate = statistics.median(run.rate for run in bare)
    index_rate = statistics.median(run.rate for run in index)
    # Each pair ran one after the other, so a machine that slows down meanwhile weighs on both.
    ratio = statistics.median(ours.rate / theirs.rate for ours, theirs in zip(index, bare, strict=True))
    agent_rate, rebuild_rate = (statistics.median(run.rate for run in runs) for runs in (agent, rebuilt))
    rebuild_ratio = statistics.median(ours.rate / theirs.rate for ours, theirs in zip(rebuilt, bare, strict=True))
    kinds = (bare, index, rebuilt, agent)
    processor = [statistics.median(run.processor_seconds / run.events for run in runs) for runs in kinds]
    peak = max(run.peak_bytes for run in [*index, *rebuilt, *agent, far[1]])
    asked, sparse = far
    ordered = sorted(each * 1000 for each in latencies)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99))
    rows = [
        ("bare loop, events/s", f"{bare_rate:,.0f}", "", True),
        ("indexer, everything written, events/s", f"{index_rate:,.0f}", "", True),
        (
            "rebuilt from the raw logs, events/s",
            f"{rebuild_rate:,.0f}",
            f">= {TARGET_REBUILD:,}",
            rebuild_rate >= TARGET_REBUILD,
        ),
        ("rebuilt / bare loop", f"{rebuild_ratio:.0%}", "", True),
        ("indexer, agent markets, events/s", f"{agent_rate:,.0f}", "", True),
        (
            "processor time an event: bare, stock, rebuilt, agent, us",
            "/".join(f"{each * 1e6:.0f}" for each in processor),
            "",
            True,
        ),
        ("sparse chain, asking alone, s", f"{asked.seconds:.0f}", "", True),
        (
            "sparse chain, indexed, s",
            f"{sparse.seconds:.0f}",
            f"<= {TARGET_SPARSE_SECONDS:.0f}",
            sparse.seconds <= TARGET_SPARSE_SECONDS,
        ),
        ("indexer / bare loop", f"{ratio:.0%}", f">= {TARGET_RATIO:.0%}", ratio >= TARGET_RATIO),
        ("peak memory, MB", f"{peak / 1e6:.0f}", f"< {TARGET_BYTES / 1e6:.0f}", peak < TARGET_BYTES),
        (f"new block to reader, ms, median of {len(ordered)}", f"{p50:.0f}", "", True),
        ("new block to reader, ms, 99th percentile", f"{p99:.0f}", f"<= {TARGET_P99_MS:.0f}", p99 <= TARGET_P99_MS),
    ]
    for what, measured, target, holds in rows:
        print(f"{what:<52}{measured:>12}{target:>10}{'' if holds else '  MISSED'}")
    figures = {
        "bench": "index",
        "events": EVENTS,
        "bare_events_per_second": bare_rate,
        "index_events_per_second": index_rate,
        "agent_events_per_second": agent_rate,
        "rebuild_events_per_second": rebuild_rate,
        "ratios": {
            "indexer, rate / bare loop": ratio,
            "rebuilt, rate / bare loop": rebuild_ratio,
            "sparse chain, indexed / asked alone": sparse.seconds / asked.seconds,
        },
        "processor_microseconds": {
            what: each * 1e6 for what, each in zip(("bare", "stock", "rebuilt", "agent"), processor, strict=True)
        },
        "sparse_seconds": {"asked": asked.seconds, "indexed": sparse.seconds},
        "peak_bytes": peak,
        "visible_ms": {"p50": p50, "p99": p99, "blocks": len(ordered)},
    }
    keep(json_path, figures)
    return 0 if all(holds for *_, holds in rows) else 1

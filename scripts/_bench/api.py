"""`./vpm bench api`: compares cached reads with a bare aiohttp handler that returns the same bytes. Both run in a
single process on uvloop. The API follows a chain with one-second blocks, so it renders its responses again every
second. `--quick` runs one round with a tenth of the requests."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvloop

from core.paths import REPOSITORY
from scripts._bench.harness import Figure, database, resident_mb, started
from scripts._bench.http_load import LoadResult, get, load
from scripts._local.ports import DIRECT, free_port, listens
from scripts._local.postgres import UNSAFE_BUT_FAST
from scripts._local.process import SpawnPlan, wait_until
from scripts._stack import wallets
from tests.support.genesis import chain, genesis
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service

CONNECTIONS = 64
TARGET_RATIO, TARGET_P99_MS = 0.80, 15.0
# A process's memory fluctuates a little; a leak of even 500 bytes a request would add far more.
MEMORY_ALLOWED_MB = 12.0
MEMORY_STEPS = 10
MARKETS = 12
PATHS = ("/api/markets", "/api/markets/1", "/api/prices")


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    rounds, requests = (1, 1_000) if quick else (5, 10_000)
    with _busy_service(folder) as service:
        rows = [row for path in PATHS for row in _compared(service, path, folder, rounds, requests)]
        return [*rows, _memory(service, 10 * requests)]


def _compared(service: StockService, path: str, folder: Path, rounds: int, requests: int) -> Iterator[Figure]:
    body = folder / "body"
    body.write_bytes(_get(f"{service.url}{path}"))
    with _constant_server(body) as port:
        servers = ((port, "/"), (service.port, path))
        for server in servers:
            _load(*server, requests // 5)
        turns = [[_load(*server, requests) for server in servers] for _ in range(rounds)]
    rate = [statistics.median(turn[who].rate for turn in turns) for who in (0, 1)]
    p99 = [statistics.median(turn[who].p99_ms for turn in turns) for who in (0, 1)]
    yield Figure(f"{path}, requests/s", rate[1], rate[0], least_ratio=TARGET_RATIO)
    yield Figure(f"{path}, p99 ms", p99[1], p99[0], most=TARGET_P99_MS)


def _memory(service: StockService, requests: int) -> Figure:
    """Measure how much the API process grows while it serves this many requests."""
    pid = service.running["api"].pid
    samples = []
    for step in range(MEMORY_STEPS):
        _load(service.port, PATHS[step % len(PATHS)], requests // MEMORY_STEPS)
        samples.append(resident_mb(pid))
    grown = max(0.0, samples[-1] - max(samples[:3]))
    return Figure(f"memory growth over {requests:,} requests, MB", grown, most=MEMORY_ALLOWED_MB)


def _load(port: int, path: str, requests: int) -> LoadResult:
    return uvloop.run(load(port, [get(port, path)] * requests, CONNECTIONS))


@contextmanager
def _busy_service(folder: Path) -> Iterator[StockService]:
    saved = genesis()
    with database(folder, UNSAFE_BUT_FAST) as url, chain(saved, "stock", folder / "anvil.log") as running:
        stock = StockChain.on(running.url, running.deployment)
        stock.push(FLAT_PRICE)
        for number in range(MARKETS):
            ticker = ("NVDA", "TSLA", "COIN")[number % 3]
            market = stock.open_market(strike_in=86_400, lasts=86_400, ticker=ticker)
            for each in range(4 if number else 100):
                stock.enter(wallets.DEV[each % len(wallets.DEV)], market, each % 2, (1 + each % 5) * USDG)
        stock.ask("evm_setIntervalMining", 1)
        with stock_service(stock, url, saved.deployments, folder, VPM_TRUST_PROXY="0") as service:
            service.start("indexer", "api")
            wait_until(partial(_shows_all, service.url), service.running["api"], 60, "the index")
            yield service


def _shows_all(url: str) -> bool:
    try:
        body = json.loads(_get(f"{url}/api/markets"))
    except OSError:  # the API has not read the index yet
        return False
    return len(body["markets"]) == MARKETS and not body["stale"]


@contextmanager
def _constant_server(body: Path) -> Iterator[int]:
    port = free_port()
    argv = (sys.executable, "-m", "scripts._bench.http_load", str(port), str(body))
    plan = SpawnPlan("bare", argv, env={"PATH": os.environ["PATH"]}, cwd=str(REPOSITORY))
    with started(plan, body.with_name("bare.log"), partial(listens, port), 120, "the bare handler"):
        yield port


def _get(url: str) -> bytes:
    with DIRECT.open(url, timeout=10) as response:
        return bytes(response.read())

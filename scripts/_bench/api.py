"""`./vpm bench api`: cached reads against a bare aiohttp handler that returns the same constant bytes, in the same run.

The API is the real daemon, on a real chain that makes a block a second and a real index of a venue with a dozen markets
and some hundred bets, so bodies are rendered again every second as they would be. Both servers are one process on
uvloop, asked by one other process over 64 connections in turns. Targets: at least 80% of the bare rate, p99 below
15 ms, and memory that does not grow: over a million requests with `--long`, else over a tenth of that.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from core.direct import DIRECT
from core.local.ports import free_port
from core.local.postgres import UNSAFE_BUT_FAST
from core.local.process import RunningProcess, SpawnPlan
from core.paths import REPOSITORY
from scripts._bench.ground import database, ground, keep, listens, started
from scripts._bench.http_load import LoadResult, load
from scripts._bench.processes import own_processor_seconds, resident_mb
from scripts._stack import wallets
from tests.support.genesis import chain, genesis
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service

CONNECTIONS = 64
ROUNDS = 5
REQUESTS = 10_000
MILLION = 1_000_000
LONG = {"memory_requests": MILLION}
MEMORY_STEPS = 10
TARGET_RATIO = 0.80
TARGET_P99_MS = 15.0
# A process's memory breathes a little; what a leak of even 50 bytes a request would add is far more.
MEMORY_ALLOWED_MB = 12.0

PATHS = ("/api/markets", "/api/markets/1", "/api/prices")


def main(json_path: Path | None, *, memory_requests: int = MILLION // 10) -> int:
    with (
        ground("api") as folder,
        busy_service(folder) as service,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        figures = runner.run(_measure(service, folder, memory_requests))
    good = _print(figures)
    ratios = {f"{row['path']}, rate / bare": row["ratio"] for row in figures["reads"]}
    keep(json_path, {"bench": "api", **figures, "ratios": ratios})
    return 0 if good else 1


async def _measure(service: StockService, folder: Path, memory_requests: int) -> dict[str, Any]:
    reads = [await _compare(service, path, folder) for path in PATHS]
    return {"connections": CONNECTIONS, "reads": reads, "memory": await _memory(service, memory_requests)}


async def _compare(service: StockService, path: str, folder: Path) -> dict[str, Any]:
    body = await asyncio.to_thread(get, f"{service.url}{path}")
    (folder / "body").write_bytes(body)
    ours: list[LoadResult] = []
    bare: list[LoadResult] = []
    with bare_handler(folder) as (port, bare_pid):
        await load(port, "/", 2_000, connections=CONNECTIONS)
        await load(service.port, path, 2_000, connections=CONNECTIONS)
        used = {"bare": 0.0, "ours": 0.0}
        pids = {"bare": bare_pid, "ours": _program_of(service.running["api"])}
        for _ in range(ROUNDS):
            for name, loads, at, what in (("bare", bare, port, "/"), ("ours", ours, service.port, path)):
                before = own_processor_seconds(pids[name])
                loads.append(await load(at, what, REQUESTS, connections=CONNECTIONS))
                used[name] += own_processor_seconds(pids[name]) - before
    zipped = await load(service.port, path, REQUESTS, connections=CONNECTIONS, headers=("Accept-Encoding: gzip",))
    return {
        "path": path,
        "bytes": len(body),
        "ratio": statistics.median(o.rate / b.rate for o, b in zip(ours, bare, strict=True)),
        "bare": asdict(sorted(bare, key=lambda each: each.rate)[ROUNDS // 2]),
        "ours": asdict(sorted(ours, key=lambda each: each.rate)[ROUNDS // 2]),
        "p99_ms": {
            name: statistics.median(each.p99_ms for each in loads) for name, loads in (("bare", bare), ("ours", ours))
        },
        "gzip_rate": zipped.rate,
        "processor_us": {name: seconds / (ROUNDS * REQUESTS) * 1e6 for name, seconds in used.items()},
    }


async def _memory(service: StockService, requests: int) -> dict[str, Any]:
    """Resident memory of the API process while it answers so many requests, at every tenth of them."""
    pid = _program_of(service.running["api"])
    samples = []
    started = time.perf_counter()
    for step in range(MEMORY_STEPS):
        path = PATHS[step % len(PATHS)]
        await load(service.port, path, requests // MEMORY_STEPS, connections=CONNECTIONS)
        samples.append(resident_mb(pid))
    return {
        "requests": requests,
        "seconds": time.perf_counter() - started,
        "resident_mb": samples,
        "grown_mb": samples[-1] - max(samples[:3]),
    }


def _print(figures: dict[str, Any]) -> bool:
    good = True
    print(f"{'':<26}{'requests/s':>19}{'':>7}{'p99 ms':>18}{'CPU us/request':>16}{'gzipped':>9}")
    heads = (("Read", "<18"), ("bytes", ">8"), ("bare", ">10"), ("ours", ">9"), ("ratio", ">7"), ("bare", ">9"))
    print("".join(format(*each) for each in (*heads, ("ours", ">9"), ("bare", ">9"), ("ours", ">7"), ("/s", ">9"))))
    for row in figures["reads"]:
        bare, ours = (row[name]["requests"] / row[name]["seconds"] for name in ("bare", "ours"))
        bad = row["ratio"] < TARGET_RATIO or row["p99_ms"]["ours"] >= TARGET_P99_MS
        good &= not bad
        used = row["processor_us"]
        print(
            f"{row['path']:<18}{row['bytes']:>8,}{bare:>10,.0f}{ours:>9,.0f}{row['ratio']:>7.2f}"
            f"{row['p99_ms']['bare']:>9.2f}{row['p99_ms']['ours']:>9.2f}{used['bare']:>9.0f}{used['ours']:>7.0f}"
            f"{row['gzip_rate']:>9,.0f}{'  MISSED' if bad else ''}"
        )
    memory = figures["memory"]
    bad = memory["grown_mb"] > MEMORY_ALLOWED_MB
    good &= not bad
    shown = ", ".join(f"{each:.0f}" for each in memory["resident_mb"])
    print(f"Memory over {memory['requests']:,} requests, MB: {shown}{'  GREW' if bad else ''}")
    return good


# ---------------------------------------------------------------- what is measured


@contextmanager
def busy_service(folder: Path) -> Iterator[StockService]:
    """The stock surface with a dozen markets and some hundred bets; indexer and API run."""
    saved = genesis()
    with database(folder, UNSAFE_BUT_FAST) as url, chain(saved, "stock", folder / "anvil.log") as running:
        stock = StockChain.on(running.url, running.deployment)
        _live(stock)
        stock.ask("evm_setIntervalMining", 1)
        with stock_service(stock, url, saved.deployments, folder, VPM_TRUST_PROXY="0") as service:
            service.start("indexer", "api")
            wait_for_markets(service.url)
            yield service


def _live(stock: StockChain) -> None:
    stock.push(FLAT_PRICE)
    for number in range(12):
        market = stock.open_market(strike_in=86_400, lasts=86_400, ticker=("NVDA", "TSLA", "COIN")[number % 3])
        for each in range(4 if number else 100):
            stock.enter(wallets.DEV[each % len(wallets.DEV)], market, each % 2, (1 + each % 5) * USDG)


def wait_for_markets(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):  # it does not listen yet, or has not read the index
            body = json.loads(get(f"{url}/api/markets"))
            if len(body["markets"]) == 12 and not body["stale"]:
                return
        if time.monotonic() > deadline:
            raise TimeoutError("the index did not come up")
        time.sleep(0.2)


@contextmanager
def bare_handler(folder: Path) -> Iterator[tuple[int, int]]:
    """Its port and the id of its process."""
    port = free_port()
    argv = (sys.executable, "-m", "scripts._bench.bare", str(port), str(folder / "body"))
    plan = SpawnPlan("bare", argv, env={"PATH": os.environ["PATH"]}, cwd=str(REPOSITORY))
    with started(plan, folder / "bare.log", partial(listens, port), 120, "the bare handler") as running:
        yield port, _program_of(running)


def get(url: str) -> bytes:
    with DIRECT.open(url, timeout=10) as response:
        return bytes(response.read())


def _program_of(running: RunningProcess) -> int:
    """The program's own process, which is the child of its guard."""
    return int(Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()[0])

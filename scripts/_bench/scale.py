"""`./vpm bench scale`: several API processes behind one port, and several lanes and relayers, against one of each.

1, 2 and 4 processes of the API (`python -m api --workers N`) with one PostgreSQL and one Redis for the shared limits
answer two client processes with 64 connections each; a bare handler of one process is the baseline. Then one lane, four
lanes of one relayer, and four lanes of two relayers send the same transfers, each relayer a process of its own; a bare
loop that sends presigned transactions one at a time is the baseline. All take turns in the same run.

Clients, database, node and service share the machine's processors, so rates together are bounded by their number: what
a bigger machine multiplies is the processor time of a request and of a transaction, which should not grow with the
number of processes. That has the targets: four processes take at most a quarter more for each than one.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from core.local.ports import free_port
from core.local.process import SpawnPlan
from core.paths import REPOSITORY
from scripts._bench.api import PATHS, bare_handler, busy_service, get, wait_for_markets
from scripts._bench.ground import ground, keep, listens, started
from scripts._bench.processes import memory_mb, processor_seconds
from scripts._bench.relay import RelayBench, new_group, rig
from tests.support.stock_service import StockService

PROCESSES = (1, 2, 4)
CLIENTS = 2
CONNECTIONS = 64
REQUESTS = 20_000
TRANSACTIONS = 10_000
ROUNDS = 3
MORE_FOR_EACH = 1.25
"""What the processor's time of a unit may be with four, of what it is with one."""

RELAYERS = {"one lane": (1, 1), "4 lanes": (1, 4), "2 relayers, 4 lanes": (2, 4)}
"""Relayers, and lanes that they share."""


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """What was measured of one arrangement: units a second, processor seconds of each unit by who spent them, and
    megabytes."""

    name: str
    rate: float
    each: Mapping[str, float]
    memory: float


def main(json_path: Path | None) -> int:
    with ground("scale") as folder:
        reads = _reads(folder)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sends = runner.run(_sends(folder))
    ratios = {**_ratios("reads", reads), **_ratios("transactions", sends)}
    good = _print(reads, sends)
    rows = {"reads": [asdict(row) for row in reads], "transactions": [asdict(row) for row in sends]}
    keep(json_path, {"bench": "scale", "processors": os.cpu_count(), **rows, "ratios": ratios})
    return 0 if good else 1


# ---------------------------------------------------------------- reads


def _reads(folder: Path) -> list[ScaleRow]:
    with ExitStack() as stack:
        service = stack.enter_context(busy_service(folder))
        service.stop("api")
        body = folder / "body"
        redis = stack.enter_context(_redis(folder))
        with _api(service, 1, redis):
            body.write_bytes(get(f"{service.url}{PATHS[0]}"))
        bare_port, bare_pid = stack.enter_context(bare_handler(folder))
        rounds: dict[str, list[ScaleRow]] = {}
        for _ in range(ROUNDS):
            rounds.setdefault("bare handler", []).append(_read(folder, "bare handler", bare_port, "/", bare_pid))
            for count in PROCESSES:
                with _api(service, count, redis) as pid:
                    name = f"{count} process{'es' if count > 1 else ''}"
                    row = _read(folder, name, service.port, PATHS[0], pid)
                    rounds.setdefault(name, []).append(row)
    return [_median(rows) for rows in rounds.values()]


@contextmanager
def _api(service: StockService, processes: int, redis: str | None) -> Iterator[int]:
    """So many of them behind the service's port, each of which has answered; the process id above all of them."""
    argv = (sys.executable, "-m", "api", "--workers", str(processes))
    env = {**service.env, "VPM_TRUST_PROXY": "0", **({"VPM_LIMITS_STORAGE_URL": redis} if redis else {})}
    plan = SpawnPlan("api", argv, env=env, cwd=str(REPOSITORY))

    def all_listen() -> bool:
        # The kernel gives a connection to any process that listens: until all do, one would get what is another's.
        return _listening(service.port) >= processes

    with started(plan, service.folder / f"api-{processes}.log", all_listen, 120, "all API processes") as running:
        wait_for_markets(service.url)
        yield running.pid


def _listening(port: int) -> int:
    """Sockets that listen on a port of this machine, as the kernel lists them."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows)


def _read(folder: Path, name: str, port: int, path: str, pid: int) -> ScaleRow:
    paths = folder / "paths"
    paths.write_text(f"{path}\n" * (REQUESTS // CLIENTS))
    argv = [sys.executable, "-m", "scripts._bench.http_load", str(port), str(CONNECTIONS), str(paths)]
    before = processor_seconds(pid)
    clients = [subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    answers = [client.communicate()[0] for client in clients]
    if any(client.returncode for client in clients):
        raise RuntimeError(f"a client of {name} failed")
    results = [json.loads(answer) for answer in answers]
    seconds = max(result["seconds"] for result in results)
    used = processor_seconds(pid) - before
    memory = sum(memory_mb(pid).values())
    return ScaleRow(name, REQUESTS / seconds, {"ours": used / REQUESTS}, memory)


@contextmanager
def _redis(folder: Path) -> Iterator[str | None]:
    program = shutil.which("redis-server")
    if program is None:
        print("No redis-server is on this machine (Debian: apt install redis-server): each process counts for itself.")
        yield None
        return
    port = free_port()
    argv = (program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    plan = SpawnPlan("redis", argv, env={}, cwd=str(folder))
    with started(plan, folder / "redis.log", partial(listens, port), 30, "redis-server"):
        yield f"redis://127.0.0.1:{port}"


# ---------------------------------------------------------------- transactions


async def _sends(folder: Path) -> list[ScaleRow]:
    rounds: dict[str, list[ScaleRow]] = {}
    async with rig(folder / "relay") as bench:
        for _ in range(ROUNDS):
            rounds.setdefault("bare loop", []).append(await _bare(bench))
            for name, (relayers, lanes) in RELAYERS.items():
                rounds.setdefault(name, []).append(await _relayed(bench, name, relayers, lanes))
    return [_median(rows) for rows in rounds.values()]


async def _bare(bench: RelayBench) -> ScaleRow:
    node, ours = processor_seconds(bench.pids["node"]), time.process_time()
    rate = await bench.bare_loop(TRANSACTIONS)
    used = {"ours": time.process_time() - ours, "database": 0.0, "node": processor_seconds(bench.pids["node"]) - node}
    return ScaleRow("bare loop", rate, {who: seconds / TRANSACTIONS for who, seconds in used.items()}, 0.0)


async def _relayed(bench: RelayBench, name: str, relayers: int, lanes: int) -> ScaleRow:
    """Lanes are shared out first; then all is queued, and it ends when all is recorded."""
    group = new_group()
    keys = [secrets.token_bytes(32) for _ in range(lanes)]
    for key in keys:
        await bench.funded(key)
    job = {"rpc": bench.rpc_url, "database": bench.database_url, "group": group}
    running = [_relayer({**job, "keys": [key.hex() for key in keys]}) for _ in range(relayers)]
    try:
        await _shared_out(bench, group, relayers, lanes)
        pids = {"ours": [each.pid for each in running], **{who: [pid] for who, pid in bench.pids.items()}}
        before = {who: sum(map(processor_seconds, those)) for who, those in pids.items()}
        started = time.perf_counter()
        await bench.queue(TRANSACTIONS, group)
        await bench.recorded(group)
        rate = TRANSACTIONS / (time.perf_counter() - started)
        used = {who: sum(map(processor_seconds, those)) - before[who] for who, those in pids.items()}
        memory = sum(sum(memory_mb(each.pid).values()) for each in running)
    finally:
        for each in running:
            assert each.stdin is not None
            each.stdin.close()
        for each in running:
            each.wait(60)
    return ScaleRow(name, rate, {who: seconds / TRANSACTIONS for who, seconds in used.items()}, memory)


def _relayer(job: Mapping[str, Any]) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "scripts._bench.relay_child"]
    process = subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    return process


async def _shared_out(bench: RelayBench, group: str, relayers: int, lanes: int) -> None:
    """Until every lane is ready, and each relayer has its part."""
    query = "SELECT holder FROM outbox_lane WHERE %s = ANY(groups) AND status = 'ready' AND holder IS NOT NULL"
    deadline = time.monotonic() + 120
    while True:
        async with bench.pool.connection() as connection:
            holders = [row[0] for row in await (await connection.execute(query, (group,))).fetchall()]
        if len(holders) == lanes and len(set(holders)) == relayers:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"of {lanes} lanes {len(holders)} were taken, by {len(set(holders))} relayers")
        await asyncio.sleep(0.1)


# ---------------------------------------------------------------- what is told


def _median(rows: Sequence[ScaleRow]) -> ScaleRow:
    each = {who: statistics.median(row.each[who] for row in rows) for who in rows[0].each}
    rate, memory = (statistics.median(getattr(row, what) for row in rows) for what in ("rate", "memory"))
    return ScaleRow(rows[0].name, rate, each, memory)


def _ratios(what: str, rows: Sequence[ScaleRow]) -> dict[str, float]:
    """Each arrangement to the first of ours, and that one to the baseline."""
    bare, one, *more = rows
    ratios = {f"{what}, {one.name}, rate / {bare.name}": one.rate / bare.rate}
    for row in more:
        ratios[f"{what}, {row.name}, rate / {one.name}"] = row.rate / one.rate
        ratios[f"{what}, {row.name}, processor of each / {one.name}"] = row.each["ours"] / one.each["ours"]
    return ratios


def _print(reads: Sequence[ScaleRow], sends: Sequence[ScaleRow]) -> bool:
    good = True
    print(f"{f'Reads of {PATHS[0]}':<24}{'a second':>10}{'of one':>8}{'CPU us each':>13}{'MB':>8}")
    for row in reads:
        bad = row.each["ours"] > MORE_FOR_EACH * reads[1].each["ours"]
        good &= not bad
        shown = f"{row.rate:>10,.0f}{row.rate / reads[1].rate:>8.2f}{row.each['ours'] * 1e6:>13.0f}{row.memory:>8.0f}"
        print(f"{row.name:<24}{shown}{'  MISSED' if bad else ''}")
    print(f"{'':<42}{'CPU us of each':^27}")
    heads = (("Transactions", "<24"), ("a second", ">10"), ("of one", ">8"), ("relayers", ">9"), ("database", ">9"))
    print("".join(format(*each) for each in (*heads, ("node", ">9"), ("MB", ">8"))))
    for row in sends:
        bad = row.each["ours"] > MORE_FOR_EACH * sends[1].each["ours"]
        good &= not bad
        spent = "".join(f"{row.each[who] * 1e6:>9.0f}" for who in ("ours", "database", "node"))
        rates = f"{row.rate:>10,.0f}{row.rate / sends[1].rate:>8.2f}"
        print(f"{row.name:<24}{rates}{spent}{row.memory:>8.0f}{'  MISSED' if bad else ''}")
    print(f"{os.cpu_count()} processors, which all share: they bound the rates, and not the processor time of each.")
    return good

"""`./vpm bench index`: compares the indexer with a bare loop that fetches pages of logs, two at a time, decodes them
and writes each page to one table by binary COPY. The loop has no block hashes, cursor, projections or checks. Each run
is a separate process, so that its memory can be measured. `--quick` runs one round with a twentieth of the events."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path

import aiohttp
import msgspec
import uvloop

from core.chain.provider import ChainProvider
from core.contracts.events.stock import ENTERED
from core.db.engine import connect, make_pool
from core.hexadecimal import bytes_of, hex_of
from indexer.chain import ChainFollower
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources
from scripts._bench.harness import Figure, fresh_database, fresh_process, local_chain, peak_mb, postgres
from scripts._local.anvil import AnvilOptions
from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer
from tests.support.index_load import AGENT, CHAIN_ID, SETTLER, STOCK, AgentVenue, LoadVenue, emit, place_emitter

TARGET_RATIO = 0.30
TARGET_REBUILD = 50_000
TARGET_MB = 300.0
PAGE_BLOCKS = 50
IN_FLIGHT = 2
COPY = b"COPY bare_events FROM STDIN (FORMAT BINARY)"


@dataclass(frozen=True, slots=True)
class IndexRun:
    events: int
    rate: float
    peak_mb: float


Runs = defaultdict[str, list[IndexRun]]


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    events, rounds = (10_000, 1) if quick else (200_000, 3)
    runs: Runs = defaultdict(list)
    stock = _History(LoadVenue(), events, (("bare",), ("index", "rebuild")))
    agent = _History(AgentVenue(), events // 4, (("agent",),))
    with postgres(folder) as server:
        for history in (stock, agent):
            asyncio.run(history.play(server, folder, rounds, runs))
    rate = {what: statistics.median(run.rate for run in each) for what, each in runs.items()}
    peak = max(run.peak_mb for what, each in runs.items() if what != "bare" for run in each)
    return [
        Figure("indexer, everything written, events/s", rate["index"], rate["bare"], least_ratio=TARGET_RATIO),
        Figure("rebuilt from the raw logs, events/s", rate["rebuild"], rate["bare"], least=TARGET_REBUILD),
        Figure("indexer, agent markets, events/s", rate["agent"], rate["bare"]),
        Figure("peak memory, MB", peak, most=TARGET_MB),
    ]


@dataclass(frozen=True, slots=True)
class _History:
    """A chain that contains at least `events` events in whole blocks, and the runs that index it. All runs of one turn
    use the same database."""

    venue: LoadVenue | AgentVenue
    events: int
    turns: tuple[tuple[str, ...], ...]

    async def play(self, server: PostgresServer, folder: Path, rounds: int, runs: Runs) -> None:
        extra = ("--hardfork", "cancun", "--quiet")
        options = AnvilOptions(CHAIN_ID, free_port(), mine_on_demand=True, gas_limit=2**50, extra=extra)
        async with local_chain(folder, options) as (url, rpc):
            await place_emitter(rpc, self.venue.emitters)
            made = 0
            for number in count(1):
                logs = self.venue.block(number)
                await emit(rpc, logs, self.venue.emitters[0])
                made += len(logs)
                if made >= self.events:
                    break
            for turn in self.turns * rounds:
                with fresh_database(server) as database:
                    for what in turn:
                        runs[what].append(_run(what, url, database, made))


def _run(what: str, rpc_url: str, database_url: str, made: int) -> IndexRun:
    with fresh_process() as child:
        run = child.submit(_measure_run, what, rpc_url, database_url).result()
    if run.events != made:
        raise RuntimeError(f"{what} saw {run.events} of {made} events")
    return run


# ---------------------------------------------------------------- in a separate process


def _measure_run(what: str, rpc_url: str, database_url: str) -> IndexRun:
    works: dict[str, Callable[[str, str], Coroutine[None, None, tuple[int, float]]]] = {
        "bare": _bare,
        "rebuild": _rebuild,
        "index": partial(_index, STOCK),
        "agent": partial(_index, AGENT),
    }
    events, seconds = uvloop.run(works[what](rpc_url, database_url))
    return IndexRun(events, events / seconds, peak_mb(os.getpid()))


async def _index(sources: Sources, rpc_url: str, database_url: str) -> tuple[int, float]:
    async with ChainProvider((rpc_url,), chain_id=CHAIN_ID) as rpc, make_pool(database_url, size=2) as pool:
        follower = ChainFollower(RpcNode(rpc), sources, pool, finality_blocks=64)
        await follower.open()
        started = time.perf_counter()
        await follower.catch_up()
        seconds = time.perf_counter() - started
        async with pool.connection() as connection:
            row = await (await connection.execute("SELECT count(*) FROM chain_log")).fetchone()
    assert row is not None
    return row[0], seconds


async def _rebuild(_rpc_url: str, database_url: str) -> tuple[int, float]:
    """Rebuild every projection of the stock markets from the raw logs."""
    async with make_pool(database_url, size=2) as pool:
        done = await rebuild(pool, STOCK)
    return done.logs, done.seconds


class BareLog(msgspec.Struct, rename="camel", gc=False):
    topics: tuple[str, ...]
    data: str
    block_number: str
    transaction_hash: str
    log_index: str


class BareAnswer(msgspec.Struct, gc=False):
    result: list[BareLog]


async def _bare(rpc_url: str, database_url: str) -> tuple[int, float]:
    decoder = msgspec.json.Decoder(BareAnswer)
    entered = hex_of(ENTERED.topic)
    async with aiohttp.ClientSession() as session, await connect(database_url, autocommit=False) as connection:
        await connection.execute(
            "CREATE TABLE bare_events (block bigint, log_index int, tx bytea, market bigint, position bigint,"
            " owner bytea, outcome smallint, offered numeric, vintage bigint, PRIMARY KEY (block, log_index))"
        )
        await connection.commit()

        async def ask(method: str, *parameters: object) -> bytes:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
            async with session.post(rpc_url, json=body) as response:
                return await response.read()

        head = int(msgspec.json.decode(await ask("eth_blockNumber"))["result"], 16)

        def page(first: int) -> asyncio.Task[bytes]:
            until = min(first + PAGE_BLOCKS - 1, head)
            chosen = {"fromBlock": hex(first), "toBlock": hex(until), "address": SETTLER}
            return asyncio.create_task(ask("eth_getLogs", chosen))

        started, events = time.perf_counter(), 0
        pages = (page(first) for first in range(1, head + 1, PAGE_BLOCKS))
        in_flight = [*islice(pages, IN_FLIGHT)]
        while in_flight:
            logs = decoder.decode(await in_flight.pop(0)).result
            async with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                copy.set_types(["int8", "int4", "bytea", "int8", "int8", "bytea", "int2", "numeric", "int8"])
                for log in logs:
                    await copy.write_row(_bare_row(log, entered))
            await connection.commit()
            events += len(logs)
            in_flight += islice(pages, 1)
        return events, time.perf_counter() - started


def _bare_row(log: BareLog, entered: str) -> tuple[object, ...]:
    t, data = log.topics, bytes_of(log.data)
    first = (int(log.block_number, 16), int(log.log_index, 16), bytes_of(log.transaction_hash), int(t[1], 16))
    if t[0] != entered:
        return (*first, None, None, None, int.from_bytes(data[:32]), None)
    offered, vintage = int.from_bytes(data[32:64]), int.from_bytes(data[64:96])
    return (*first, int(t[2], 16), bytes.fromhex(t[3][26:]), data[31], offered, vintage)

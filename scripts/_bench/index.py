"""`./vpm bench index`: the indexer against a bare fetch-decode-COPY loop.

History: 200,000 events of stock markets in blocks of about a hundred. The bare loop and the indexer take turns on the
same chain and database server; the indexer writes raw logs, blocks, projections and the cursor. Targets: at least 30%
of the bare loop's rate, less than 300 MB of memory; and 50,000 events a second for a rebuild, which folds what the
indexer wrote again from its raw logs. Then a quarter as many events of agent markets, each stake with its payment: the
token's logs are paired, and every market is joined from three contracts. `--quick`: a twentieth of the events, once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from core.chain.provider import ChainProvider
from scripts._bench.harness import Figure, fresh_database, ground, postgres, report
from scripts._bench.index_child import IndexRun, measure
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

TARGET_RATIO = 0.30
TARGET_REBUILD = 50_000
TARGET_MB = 300.0


def main(*, quick: bool) -> int:
    events, rounds = (10_000, 1) if quick else (200_000, 3)
    with ground("index") as folder, postgres(folder) as server:
        bare, index, rebuilt = asyncio.run(_history(server, folder, events, rounds))
        agent = asyncio.run(_agent_history(server, folder, events // 4, rounds))
    rates = [statistics.median(run.rate for run in runs) for runs in (bare, index, rebuilt, agent)]
    peak = max(run.peak_mb for run in [*index, *rebuilt, *agent])
    rows = [
        Figure("indexer, everything written, events/s", rates[1], rates[0], least_ratio=TARGET_RATIO),
        Figure("rebuilt from the raw logs, events/s", rates[2], rates[0], least=TARGET_REBUILD),
        Figure("indexer, agent markets, events/s", rates[3], rates[0]),
        Figure("peak memory, MB", peak, most=TARGET_MB),
    ]
    return report("index", rows)


async def _history(
    server: PostgresServer, folder: Path, events: int, rounds: int
) -> tuple[list[IndexRun], list[IndexRun], list[IndexRun]]:
    """Run the bare loop, the indexer, and a rebuild of what it wrote, in turns."""
    bare: list[IndexRun] = []
    index: list[IndexRun] = []
    rebuilt: list[IndexRun] = []
    async with _chain(folder) as (url, rpc):
        made = await _emitted(rpc, LoadVenue(), events, SETTLER)
        for _ in range(rounds):
            with fresh_database(server) as database:
                bare.append(_run("bare", url, database, made))
            with fresh_database(server) as database:
                index.append(_run("index", url, database, made))
                rebuilt.append(_run("rebuild", url, database, made))
    return bare, index, rebuilt


async def _agent_history(server: PostgresServer, folder: Path, events: int, rounds: int) -> list[IndexRun]:
    runs = []
    async with _chain(folder) as (url, rpc):
        await place_emitter(rpc, (WALLET, RESOLVER, LISTER, TOKEN))
        made = await _emitted(rpc, AgentVenue(), events, WALLET)
        for _ in range(rounds):
            with fresh_database(server) as database:
                runs.append(_run("agent", url, database, made))
    return runs


async def _emitted(rpc: ChainProvider, venue: LoadVenue | AgentVenue, least: int, to: str) -> int:
    """Emit whole blocks of events, from the first on, until there are at least so many; return how many."""
    number = made = 0
    while made < least:
        number += 1
        records = venue.block(number)
        await emit(rpc, records, to=to)
        made += len(records)
    return made


def _run(what: str, rpc_url: str, database_url: str, made: int) -> IndexRun:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as own:
        run = own.submit(measure, what, rpc_url, database_url).result()
    if run.events != made:
        raise RuntimeError(f"{what} saw {run.events} of {made} events")
    return run


@asynccontextmanager
async def _chain(folder: Path) -> AsyncIterator[tuple[str, ChainProvider]]:
    extra = ("--hardfork", "cancun", "--quiet")
    options = AnvilOptions(CHAIN_ID, free_port(), mine_on_demand=True, gas_limit=2**50, extra=extra)
    running = start_anvil(options, folder / "anvil.log")
    try:
        async with ChainProvider((options.url,), chain_id=CHAIN_ID) as rpc:
            await place_emitter(rpc)
            yield options.url, rpc
    finally:
        running.stop()

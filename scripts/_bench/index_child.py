"""The runs that `index` measures, each in a process of its own, so that its memory is its own: `bare`, `index` (stock
markets), `agent`, or `rebuild` of what `index` wrote.

`bare` is the yardstick: pages of logs, two in flight, typed decoding, words sliced by hand, binary COPY into one table,
one transaction a page. No block hashes, no cursor, no projections, no checks.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass

import aiohttp
import msgspec
import uvloop

from core.chain.provider import ChainProvider
from core.contracts.events import Role
from core.contracts.events.stock import ENTERED
from core.db.engine import connect, make_pool
from core.hexadecimal import bytes_of, hex_of
from indexer.chain import ChainFollower
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources
from scripts._bench.harness import peak_mb
from tests.support.index_load import CHAIN_ID, LISTER, RESOLVER, SETTLER, STOCK, TOKEN, WALLET

PAGE_BLOCKS = 50
IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class IndexRun:
    """One indexing of a history: how many events, in what time and memory."""

    events: int
    seconds: float
    peak_mb: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds


AGENT = Sources(
    "base",
    CHAIN_ID,
    1,
    "op-stack",
    {
        Role.WALLET: bytes_of(WALLET),
        Role.AGENT_RESOLVER: bytes_of(RESOLVER),
        Role.AGENT_LISTER: bytes_of(LISTER),
    },
    bytes_of(TOKEN),
)


async def index(rpc_url: str, database_url: str, sources: Sources = STOCK) -> tuple[int, float]:
    """Run the indexer itself from the first block to the head."""
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


async def rebuilt(database_url: str) -> tuple[int, float]:
    """Fold every projection of the stock markets again from the raw logs."""
    async with make_pool(database_url, size=2) as pool:
        done = await rebuild(pool, STOCK)
    return done.logs, done.seconds


class BareLog(msgspec.Struct, rename="camel", gc=False):
    """A log with what a reader cannot do without."""

    topics: tuple[str, ...]
    data: str
    block_number: str
    transaction_hash: str
    log_index: str


class BareAnswer(msgspec.Struct, gc=False):
    """An answer to `eth_getLogs` with such logs."""

    result: list[BareLog]


async def bare(rpc_url: str, database_url: str) -> tuple[int, float]:
    decoder = msgspec.json.Decoder(BareAnswer)
    connection = await connect(database_url, autocommit=False)
    await connection.execute("DROP TABLE IF EXISTS bare_events")
    await connection.execute(
        "CREATE TABLE bare_events (block bigint, log_index int, tx bytea, market bigint, position bigint, owner bytea,"
        " outcome smallint, offered numeric, vintage bigint, PRIMARY KEY (block, log_index))"
    )
    await connection.commit()
    async with aiohttp.ClientSession() as session:

        async def ask(method: str, parameters: list[object]) -> bytes:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
            async with session.post(rpc_url, json=body) as response:
                return await response.read()

        head = int(json.loads(await ask("eth_blockNumber", []))["result"], 16)

        def page(first: int) -> asyncio.Task[bytes]:
            until = min(first + PAGE_BLOCKS - 1, head)
            chosen = {"fromBlock": hex(first), "toBlock": hex(until), "address": SETTLER}
            return asyncio.create_task(ask("eth_getLogs", [chosen]))

        started = time.perf_counter()
        events, following = 0, 1
        flying: list[asyncio.Task[bytes]] = []
        entered = hex_of(ENTERED.topic)
        while following <= head or flying:
            while following <= head and len(flying) < IN_FLIGHT:
                flying.append(page(following))
                following += PAGE_BLOCKS
            logs = decoder.decode(await flying.pop(0)).result
            async with connection.cursor() as cursor, cursor.copy(COPY) as copy:
                copy.set_types(["int8", "int4", "bytea", "int8", "int8", "bytea", "int2", "numeric", "int8"])
                for log in logs:
                    t, data = log.topics, bytes_of(log.data)
                    block, at = int(log.block_number, 16), int(log.log_index, 16)
                    tx = bytes_of(log.transaction_hash)
                    if t[0] == entered:
                        await copy.write_row(
                            (
                                block,
                                at,
                                tx,
                                int(t[1], 16),
                                int(t[2], 16),
                                bytes.fromhex(t[3][26:]),
                                data[31],
                                int.from_bytes(data[32:64]),
                                int.from_bytes(data[64:96]),
                            )
                        )
                    else:
                        await copy.write_row(
                            (block, at, tx, int(t[1], 16), None, None, None, int.from_bytes(data[:32]), None)
                        )
            await connection.commit()
            events += len(logs)
        seconds = time.perf_counter() - started
    await connection.close()
    return events, seconds


COPY = b"COPY bare_events FROM STDIN (FORMAT BINARY)"


def measure(what: str, rpc_url: str, database_url: str) -> IndexRun:
    """Do one run in this process."""
    match what:
        case "bare":
            work = bare(rpc_url, database_url)
        case "rebuild":
            work = rebuilt(database_url)
        case "agent":
            work = index(rpc_url, database_url, AGENT)
        case _:
            work = index(rpc_url, database_url)
    events, seconds = uvloop.run(work)
    return IndexRun(events, seconds, peak_mb(os.getpid()))

"""`./vpm bench relay`: one lane of the relayer against a bare loop of presigned sends, same chain, same run.

The bare loop signs everything beforehand and then sends one transaction per request, waiting for each answer; it stores
nothing and follows nothing. The relayer starts from intents queued in PostgreSQL (with its durable settings, and after
a round that is not counted, which makes the server's files) and ends when every receipt is recorded. A block comes each
250 ms, as on the chain of the stock markets. `--quick`: 2,000 transactions, one round.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import uvloop

from core.chain import ChainClient, ChainProvider, checksum
from core.db.engine import ConnectionPool, make_pool
from core.hexadecimal import hex_of
from core.outbox import IntentRequest, enqueue
from relayer.leases import LaneSpec
from relayer.policy import FeePolicy, LanePolicy, Patience
from relayer.service import follow_chain, relaying
from relayer.signing import Fees, LocalSigner, Unsigned
from scripts._bench.harness import Figure, database, ground, report
from scripts._local.anvil import AnvilOptions, start_anvil
from scripts._local.ports import free_port

TARGET = 0.75
BLOCK_SECONDS = 0.25
PAYEE = b"\x09" * 20  # one for all: anvil remembers every account of every block
GWEI = 10**9
CHAIN_ID = 31337
POLICY = LanePolicy(
    fees=FeePolicy(cap_wei=1000 * GWEI),
    patience=Patience(resend_after_seconds=10.0, bump_after_seconds=30.0),
    max_in_flight=4096,
    batch_size=400,
    rpc_batch_size=100,
    gas_per_hour_wei=10**24,
)


@dataclass(frozen=True)
class RelayBench:
    """A running chain and database."""

    rpc_url: str
    database_url: str
    client: ChainClient
    pool: ConnectionPool

    async def bare_loop(self, count: int) -> float:
        """Send presigned transactions one at a time; transactions a second."""
        signer = await self._funded()
        made = [Unsigned(CHAIN_ID, nonce, Fees(200 * GWEI, GWEI), 21_000, PAYEE, 1, b"") for nonce in range(count)]
        bodies = [
            b'{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%s"]}' % raw.hex().encode()
            for raw in (signer.sign(each).raw for each in made)
        ]
        async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
            started = time.perf_counter()
            for body in bodies:
                async with session.post(self.rpc_url, data=body) as response:
                    if b'"result"' not in await response.read():
                        raise RuntimeError("the chain refused a transaction of the bare loop")
            rate = count / (time.perf_counter() - started)
        while await self.client.eth.get_transaction_count(checksum(signer.address)) < count:
            await asyncio.sleep(0.1)
        return rate

    async def lane(self, count: int, *, simulate: bool = False) -> float:
        """Relay queued intents on one lane until all are recorded; transactions a second."""
        signer, group = await self._funded(), f"bench-{secrets.token_hex(4)}"
        intent = IntentRequest(
            group, CHAIN_ID, group, "bench", hex_of(PAYEE), value_wei=1, gas_limit=21_000, simulate=simulate
        )
        async with self.pool.connection() as connection, connection.transaction():
            for _ in range(count):
                await enqueue(connection, replace(intent, key=secrets.token_hex(16)))
        following = follow_chain("bench", CHAIN_ID, (self.rpc_url,), POLICY, finality_blocks=64, poll_seconds=0.2)
        lane = LaneSpec("bench", CHAIN_ID, (group,), signer)
        async with following as chain, relaying(self.database_url, [chain], [lane], lease_seconds=15.0) as relayer:
            tasks = {name: asyncio.create_task(work) for name, work in relayer.works().items()}
            try:
                started = time.perf_counter()
                while await self._waits(group):
                    for task in tasks.values():
                        if task.done():
                            task.result()
                    await asyncio.sleep(0.05)
                return count / (time.perf_counter() - started)
            finally:
                for name in ("leases", *tasks):
                    tasks[name].cancel()
                    await asyncio.gather(tasks[name], return_exceptions=True)

    async def _waits(self, group: str) -> bool:
        """Ask through the indexes if anything is not recorded yet: the relayer is what is measured."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(
                "SELECT EXISTS (SELECT FROM outbox_intent WHERE state = 'queued' AND chain_id = %(chain)s"
                " AND lane_group = %(group)s) OR EXISTS (SELECT FROM outbox_intent i JOIN outbox_lane l"
                " ON l.id = i.lane_id WHERE i.state IN ('signed', 'sent') AND l.groups = ARRAY[%(group)s])",
                {"chain": CHAIN_ID, "group": group},
            )
            row = await cursor.fetchone()
        return row is not None and row[0]

    async def _funded(self) -> LocalSigner:
        signer = LocalSigner(secrets.token_bytes(32))
        await self.client.provider.call("anvil_setBalance", [hex_of(signer.address), hex(10**24)], object)
        return signer


@asynccontextmanager
async def _rig(folder: Path) -> AsyncIterator[RelayBench]:
    options = AnvilOptions(chain_id=CHAIN_ID, port=free_port(), block_time_seconds=BLOCK_SECONDS, gas_limit=500_000_000)
    with database(folder) as url:
        chain = start_anvil(options, folder / "anvil.log")
        try:
            async with (
                ChainProvider([options.url], chain_id=CHAIN_ID) as rpc,
                make_pool(url, size=2, autocommit=True) as pool,
            ):
                yield RelayBench(options.url, url, ChainClient(rpc), pool)
        finally:
            chain.stop()


async def _measure(count: int, rounds: int) -> Sequence[list[float]]:
    """Rates of the bare loop, the lane, and the lane that simulates; in turns, so that all meet the same machine."""
    bare: list[float] = []
    lane: list[float] = []
    simulating: list[float] = []
    with ground("relay") as folder:
        async with _rig(folder) as bench:
            await bench.lane(count)
            for _ in range(rounds):
                bare.append(await bench.bare_loop(count))
                lane.append(await bench.lane(count))
                simulating.append(await bench.lane(count, simulate=True))
    return bare, lane, simulating


def main(*, quick: bool) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # what the daemon runs on
        rates = runner.run(_measure(2_000, 1) if quick else _measure(20_000, 3))
    bare, lane, simulating = map(statistics.median, rates)
    rows = [
        Figure("one lane, transactions/s", lane, bare, least_ratio=TARGET),
        Figure("one lane, simulating each, transactions/s", simulating, bare),
    ]
    return report("relay", rows)

"""`./vpm bench relay`: one lane of the relayer against a bare loop of presigned sends, same chain, same run.

The bare loop signs everything beforehand and then sends one transaction per request, waiting for each answer; it stores
nothing and follows nothing. The relayer starts from intents queued in PostgreSQL (with its durable settings, and after
a round that is not counted, which makes the server's files) and ends when every receipt is recorded: it takes, signs,
stores, sends and follows. A block comes each 250 ms, as on the chain of the stock markets; anvil looks at the whole
block for each receipt of it, so larger blocks measure anvil. Target: 70% of the bare loop's rate.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from core.chain import ChainClient, ChainProvider, checksum
from core.db.engine import ConnectionPool, make_pool
from core.db.migrate import migrate
from core.hexadecimal import hex_of
from core.local.anvil import AnvilOptions, start_anvil
from core.local.ports import free_port
from core.outbox import IntentRequest, enqueue_many
from relayer.fees import FeePolicy
from relayer.leases import LaneSpec
from relayer.policy import LanePolicy
from relayer.service import ChainPlan, relaying
from relayer.signing import Fees, LocalSigner, Signer, Unsigned
from relayer.transaction import Patience
from scripts._bench.ground import ground, keep, postgres

TRANSACTIONS = 20_000
ROUNDS = 3
TARGET = 0.70
BLOCK_SECONDS = 0.25
# One for all: anvil remembers every account of every block.
PAYEE = b"\x09" * 20
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
    pids: Mapping[str, int]

    async def funded(self, secret: bytes | None = None) -> LocalSigner:
        signer = LocalSigner(secret or secrets.token_bytes(32))
        await self.client.provider.call("anvil_setBalance", [hex_of(signer.address), hex(10**24)], object)
        return signer

    async def bare_loop(self, count: int) -> float:
        """Transactions a second, presigned and sent one at a time."""
        signer = await self.funded()
        bodies = [
            b'{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x%s"]}' % raw.hex().encode()
            for raw in (_transfer(signer, nonce) for nonce in range(count))
        ]
        headers = {"Content-Type": "application/json"}
        async with aiohttp.ClientSession(headers=headers) as session:
            started = time.perf_counter()
            for body in bodies:
                async with session.post(self.rpc_url, data=body) as response:
                    if b'"result"' not in await response.read():
                        raise RuntimeError("the chain refused a transaction of the bare loop")
            rate = count / (time.perf_counter() - started)
        await self._mined(signer, count)
        return rate

    async def lane(self, count: int, *, simulate: bool) -> float:
        """Transactions a second from queued to mined and recorded, on one lane."""
        signer = await self.funded()
        group = new_group()
        await self.queue(count, group, simulate=simulate)
        async with lanes_at_work(self.rpc_url, self.database_url, group, [signer]) as tasks:
            started = time.perf_counter()
            await self.recorded(group, tasks)
            return count / (time.perf_counter() - started)

    async def queue(self, count: int, group: str, *, simulate: bool = False) -> None:
        requests = [
            IntentRequest(
                key=secrets.token_hex(16),
                chain_id=CHAIN_ID,
                group=group,
                kind="bench",
                to=hex_of(PAYEE),
                value_wei=1,
                gas_limit=21_000,
                simulate=simulate,
            )
            for _ in range(count)
        ]
        async with self.pool.connection() as connection:
            for start in range(0, count, 1000):
                await enqueue_many(connection, requests[start : start + 1000])

    async def recorded(self, group: str, tasks: Sequence[asyncio.Task[None]] = ()) -> None:
        """Waits until all of the group are mined and recorded, for as long as the tasks run."""
        while await self._waits(group):
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    async def _waits(self, group: str) -> bool:
        """Whether anything is not recorded yet; asked through the indexes, for what is measured is the relayer."""
        async with self.pool.connection() as connection:
            cursor = await connection.execute(
                "SELECT EXISTS (SELECT FROM outbox_intent WHERE state = 'queued' AND chain_id = %(chain)s"
                " AND lane_group = %(group)s) OR EXISTS (SELECT FROM outbox_intent i JOIN outbox_lane l"
                " ON l.id = i.lane_id WHERE i.state IN ('signed', 'sent') AND l.groups = ARRAY[%(group)s])",
                {"chain": CHAIN_ID, "group": group},
            )
            row = await cursor.fetchone()
        return row is not None and row[0]

    async def _mined(self, signer: LocalSigner, count: int) -> None:
        while await self.client.eth.get_transaction_count(checksum(signer.address)) < count:
            await asyncio.sleep(0.1)


def new_group() -> str:
    return f"bench-{secrets.token_hex(4)}"


@asynccontextmanager
async def lanes_at_work(
    rpc_url: str, database_url: str, group: str, signers: Sequence[Signer]
) -> AsyncIterator[Sequence[asyncio.Task[None]]]:
    """A relayer with a lane for each key; its tasks."""
    plan = ChainPlan("bench", CHAIN_ID, (rpc_url,), 64, 0.2, POLICY)
    specs = [LaneSpec("bench", CHAIN_ID, (group,), signer) for signer in signers]
    async with relaying(database_url, [plan], specs, lease_seconds=15.0) as relayer:
        tasks = {name: asyncio.create_task(work) for name, work in relayer.works().items()}
        try:
            yield list(tasks.values())
        finally:
            for name in ("leases", *tasks):
                tasks[name].cancel()
                await asyncio.gather(tasks[name], return_exceptions=True)


def _transfer(signer: LocalSigner, nonce: int) -> bytes:
    return signer.sign(Unsigned(CHAIN_ID, nonce, Fees(200 * GWEI, GWEI), 21_000, PAYEE, value_wei=1, data=b"")).raw


@asynccontextmanager
async def rig(folder: Path) -> AsyncIterator[RelayBench]:
    options = AnvilOptions(chain_id=CHAIN_ID, port=free_port(), block_time_seconds=BLOCK_SECONDS, gas_limit=500_000_000)
    with postgres(folder) as (server, database_pid):
        chain = start_anvil(options, folder / "anvil.log")
        try:
            url = server.url()
            await asyncio.to_thread(migrate, url)
            async with (
                ChainProvider([options.url], chain_id=CHAIN_ID) as rpc,
                make_pool(url, size=2, autocommit=True) as pool,
            ):
                pids = {"database": database_pid, "node": chain.pid}
                yield RelayBench(options.url, url, ChainClient(rpc), pool, pids)
        finally:
            chain.stop()


async def measure() -> dict[str, list[float]]:
    """Rates by what was measured; bare loop and lane take turns, so that both meet the same machine."""
    rates: dict[str, list[float]] = {"bare loop": [], "one lane": [], "one lane, simulating each": []}
    with ground("relay") as folder:
        async with rig(folder) as bench:
            await bench.lane(TRANSACTIONS, simulate=False)
            for _ in range(ROUNDS):
                rates["bare loop"].append(await bench.bare_loop(TRANSACTIONS))
                rates["one lane"].append(await bench.lane(TRANSACTIONS, simulate=False))
                rates["one lane, simulating each"].append(await bench.lane(TRANSACTIONS, simulate=True))
    return rates


def _shown(rates: Sequence[float]) -> str:
    return f"{statistics.median(rates):>10,.0f}{min(rates):>10,.0f}{max(rates):>10,.0f}"


def main(json_path: Path | None) -> int:
    import uvloop  # noqa: PLC0415 - what the daemon runs on

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rates = runner.run(measure())
    bare = statistics.median(rates["bare loop"])
    print(f"{'Transactions a second':<32}{'median':>10}{'least':>10}{'most':>10}{'of bare':>10}")
    for name, each in rates.items():
        print(f"{name:<32}{_shown(each)}{statistics.median(each) / bare:>10.0%}")
    ratio = statistics.median(rates["one lane"]) / bare
    print(f"One lane carries {ratio:.0%} of the bare loop's rate; the target is {TARGET:.0%}.")
    rows = [{"row": name, "rates": [round(rate, 1) for rate in each]} for name, each in rates.items()]
    ratios = {
        f"{name}, rate / bare loop": statistics.median(rates[name]) / bare for name in rates if name != "bare loop"
    }
    keep(json_path, {"bench": "relay", "transactions": TRANSACTIONS, "target": TARGET, "rows": rows, "ratios": ratios})
    return 0 if ratio >= TARGET else 1

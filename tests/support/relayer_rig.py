"""What tests of the relayer share: a chain, a database, funded keys, and a relayer in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from core.chain import ChainClient, ChainProvider, RpcError, RpcErrorKind, checksum
from core.chain.wire import quantity
from core.config.settings import ChainSettings
from core.contracts.deployments import Deployment, write_deployment
from core.db.engine import ConnectionPool, make_pool
from core.outbox import (
    GroupReport,
    Intent,
    IntentRequest,
    IntentState,
    IntentWatch,
    LaneStatus,
    enqueue,
    read,
    report,
)
from core.service.cancelling import cancel_and_wait
from relayer.leases import LaneSpec, Lease
from relayer.policy import FeePolicy, LanePolicy, Patience
from relayer.queued import LaneQueries
from relayer.service import Relayer, open_chain, open_relayer
from relayer.signing import Fees, LocalSigner, Signer, Unsigned
from relayer.store import LaneStore
from relayer.transactions import Prepared
from scripts._local.process import Program
from tests.support.outbox_history import history
from tests.support.programs import popen
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from tests.conftest import Anvil, StartAnvil

GWEI = 10**9
ETHER = 10**18

QUICK = LanePolicy(
    fees=FeePolicy(cap_wei=500 * GWEI),
    patience=Patience(
        resend_after_seconds=0.6,
        bump_after_seconds=2.0,
        bump_after_blocks=2,
        doubt_after_seconds=0.3,
        believe_after_seconds=0.6,
    ),
    gas_per_hour_wei=1000 * ETHER,
    watch_seconds=0.5,
    defer_seconds=0.3,
)


@dataclass
class Rig:
    """A chain and a database. `client` talks to the chain; `pool` is in autocommit, like a relayer's."""

    database_url: str
    rpc_url: str
    chain_id: int
    pool: ConnectionPool
    client: ChainClient
    watch: IntentWatch
    finality_blocks: int = 3
    poll_seconds: float = 0.05
    policy: LanePolicy = QUICK
    ws_urls: tuple[str, ...] = ()
    more_urls: tuple[str, ...] = ()  # of the relayer alone, after `rpc_url`
    signers: list[LocalSigner] = field(default_factory=list)

    async def ask(self, method: str, *params: object) -> object:
        return await self.client.provider.call(method, params, object)

    async def new_signer(self, ether: int = 100) -> LocalSigner:
        signer = LocalSigner(secrets.token_bytes(32))
        await self.ask("anvil_setBalance", _hex(signer.address), hex(ether * ETHER))
        self.signers.append(signer)
        return signer

    async def mine(self, blocks: int = 1) -> None:
        await self.ask("anvil_mine", hex(blocks))

    async def fork(self, snapshot: object, blocks: int) -> None:
        await self.ask("evm_revert", snapshot)
        await self.ask("anvil_dropAllTransactions")
        await self.ask("evm_increaseTime", 5)
        await self.mine(blocks)

    async def hash_at(self, number: int) -> str:
        block = await self.client.block(number)
        assert block is not None
        return block.hash

    async def in_pool(self, signer: LocalSigner, count: int = 1) -> None:
        async def are_there() -> bool:
            return await self.nonce(signer, "pending") == count

        await until(are_there, f"{count} transactions in the pool")

    async def mined(self, *intents: Intent) -> list[Intent]:
        ids = [each.id for each in intents]

        async def ended() -> bool:
            await self.mine()
            await asyncio.sleep(0.2)
            query = "SELECT 1 FROM outbox_intent WHERE id = ANY(%s) AND state NOT IN ('final', 'failed', 'replaced')"
            return not await self.rows(query, ids)

        await until(ended, "the end of every intent")
        return [await self.read(each) for each in intents]

    async def mined_under(self, signer: LocalSigner, blocks: int) -> Intent:
        """Return a transfer with the signer's first nonce, mined on a chain that mines on request, with so many blocks
        after it. Its relayer is gone."""
        async with replace(self, poll_seconds=0.05).relayer(self.spec(signer)):
            asked = await self.ask_for(self.transfer())
            await self.in_pool(signer)
            await self.mine()
            await self.reaches(asked, IntentState.MINED)
        await self.mine(blocks)
        return asked

    async def nonce(self, signer: LocalSigner, tag: Literal["latest", "pending"] = "latest") -> int:
        return await self.client.eth.get_transaction_count(checksum(signer.address), tag)

    async def dead_holder(self, signer: Signer, *, next_nonce: int, lease_seconds: float = 60.0) -> LaneStore:
        ((lane_id,),) = await self.rows(
            "INSERT INTO outbox_lane (chain_id, address, groups, next_nonce, epoch, holder, lease_until) VALUES "
            "(%s, %s, '{relay}', %s, 1, gen_random_uuid(), now() + make_interval(secs => %s)) RETURNING id",
            self.chain_id,
            signer.address,
            next_nonce,
            lease_seconds,
        )
        return LaneStore(self.pool, Lease(lane_id, 1, self.chain_id, ("relay",), signer, valid_until=math.inf))

    async def prepared(self, store: LaneStore) -> list[Prepared]:
        queued = await LaneQueries(self.pool, store.lease).queued(10, [])
        return [Prepared(each, 21_000, Fees(50 * GWEI, GWEI)) for each in queued]

    def spec(self, signer: Signer, *groups: str) -> LaneSpec:
        return LaneSpec("test", self.chain_id, groups or ("relay",), signer)

    @contextlib.asynccontextmanager
    async def relayer(
        self, *specs: LaneSpec, policy: LanePolicy | None = None, lease_seconds: float = 3.0
    ) -> AsyncIterator[Relayer]:
        """Run a relayer and stop it in an orderly way; if one of its tasks fails, the test fails."""
        settings = ChainSettings(
            name="base",
            rpc_urls=(self.rpc_url, *self.more_urls),
            ws_urls=self.ws_urls,
            deployment_file=Path(),
            finality_blocks=self.finality_blocks,
            poll_interval_ms=int(self.poll_seconds * 1000),
        )
        following = open_chain("test", self.chain_id, settings, policy or self.policy)
        async with (
            following as chain,
            open_relayer(self.database_url, [chain], specs, lease_seconds=lease_seconds) as relayer,
        ):
            chain.feed.behind_seconds, chain.feed.idle_seconds = 1.0, 0.2
            tasks = {name: asyncio.create_task(work, name=name) for name, work in relayer.tasks().items()}
            try:
                yield relayer
            finally:
                failed = [task for task in tasks.values() if task.done()]
                for name in ("leases", *tasks):
                    await cancel_and_wait(tasks[name])
                for task in failed:
                    task.result()

    def transfer(self, key: str | None = None, **changes: object) -> IntentRequest:
        """Return an intent of one wei to a new address, whose balance counts how often it was mined."""
        request = IntentRequest(
            key=key or f"test:{secrets.token_hex(8)}",
            chain_id=self.chain_id,
            group="relay",
            kind="transfer",
            to=_hex(secrets.token_bytes(20)),
            value_wei=1,
        )
        return replace(request, **changes)  # type: ignore[arg-type]

    async def ask_for(self, request: IntentRequest) -> Intent:
        async with self.pool.connection() as connection:
            return await enqueue(connection, request)

    async def ask_for_many(self, requests: list[IntentRequest]) -> list[Intent]:
        async with self.pool.connection() as connection, connection.transaction():
            return [await enqueue(connection, each) for each in requests]

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        async with self.pool.connection() as connection:
            cursor = await connection.execute(query.encode(), values or None)
            return await cursor.fetchall() if cursor.description else []

    async def free_lanes(self) -> None:
        await self.rows("UPDATE outbox_lane SET holder = NULL, lease_until = NULL")

    async def steps(self, intent: Intent) -> list[str]:
        """Return the states that the intent has had, in order."""
        async with self.pool.connection() as connection:
            return [step.to_state.value for step in await history(connection, intent.id)]

    async def report(self, group: str = "relay") -> GroupReport:
        async with self.pool.connection() as connection:
            return await report(connection, self.chain_id, group)

    async def until_lane(self, signer: Signer, status: LaneStatus, group: str = "relay") -> None:
        async def is_there() -> bool:
            lanes = (await self.report(group)).lanes
            return any(lane.address == signer.address and lane.status is status for lane in lanes)

        await until(is_there, f"a lane that is {status.value}")

    async def read(self, intent: Intent) -> Intent:
        async with self.pool.connection() as connection:
            found = await read(connection, intent.id)
        assert found is not None
        return found

    async def reaches(self, intent: Intent, *states: IntentState, seconds: float = PATIENCE) -> Intent:
        found = await self.watch.wait(intent.id, frozenset(states), timeout_seconds=seconds)
        assert found.state in states, f"{found} is not {states} after {seconds} s"
        return found

    async def balance(self, address: str) -> int:
        return await self.client.eth.get_balance(checksum(address))

    async def balances(self, addresses: list[str]) -> list[int]:
        requests = [("eth_getBalance", [address, "latest"]) for address in addresses]
        answers = await self.client.provider.batch(requests, str)
        return [quantity(answer) for answer in answers if isinstance(answer, str)]

    def sign(self, signer: LocalSigner, nonce: int, *, to: bytes | None = None, gwei: int = 50) -> bytes:
        fees = Fees(gwei * GWEI, min(gwei, 2) * GWEI)
        return signer.sign(
            Unsigned(self.chain_id, nonce, fees, 21_000, to or secrets.token_bytes(20), value_wei=1, data=b"")
        ).raw


@contextlib.asynccontextmanager
async def rigged(database_url: str, rpc_url: str, chain_id: int, **changes: object) -> AsyncIterator[Rig]:
    async with (
        make_pool(database_url, size=5, autocommit=True) as pool,
        ChainProvider([rpc_url], chain_id=chain_id) as rpc,
        IntentWatch(database_url, pool) as watch,
    ):
        yield replace(Rig(database_url, rpc_url, chain_id, pool, ChainClient(rpc), watch), **changes)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def rigged_afresh(database_url: str, chain: Anvil) -> AsyncIterator[Rig]:
    async with rigged(database_url, chain.url, chain.chain_id) as rig:
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        await rig.mine()
        yield rig


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    return module_anvil(chain_id=31338, mine_on_demand=True)


@pytest.fixture
async def rig(fresh_database_url: str, chain: Anvil) -> AsyncIterator[Rig]:
    async with rigged_afresh(fresh_database_url, chain) as rig:
        yield rig


def refuse_first_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the node refuse the next transaction that it is offered, as one that it can never take."""
    send = ChainProvider.send_raw_batch
    refused: list[bytes] = []

    async def refusing(provider: ChainProvider, raws: Sequence[bytes]) -> list[str | RpcError]:
        if refused:
            return await send(provider, raws)
        refused.append(raws[0])
        refusal = RpcError(RpcErrorKind.GAS_LIMIT, "exceeds block gas limit")
        return [refusal, *(await send(provider, raws[1:]) if raws[1:] else ())]

    monkeypatch.setattr(ChainProvider, "send_raw_batch", refusing)


@dataclass
class Relayers:
    """Relayer processes on one database and chain, as an operator would run them. The chain id must be 8453, "base"."""

    rig: Rig
    folder: Path
    secrets: list[str]
    running: list[Program] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)  # more variables, or other values of these

    def start(self) -> Program:
        env = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": self.rig.database_url,
            "VPM_BASE_RPC_URLS": self.rig.rpc_url,
            "VPM_DEPLOYMENTS_DIR": str(self.folder),
            "VPM_BASE_FINALITY_BLOCKS": "4",
            "VPM_BASE_POLL_INTERVAL_MS": "200",
            "VPM_RELAYER_METRICS_PORT": "0",
            "VPM_RELAYER_KEYS": ",".join(self.secrets),
            "VPM_RELAYER_LEASE_SECONDS": "3",
            "VPM_RELAYER_RESEND_AFTER_SECONDS": "2",
            "VPM_READY_FILE": str(self.folder / f"ready-{len(self.running)}.json"),
        } | self.more
        with (self.folder / f"relayer-{len(self.running)}.log").open("wb") as log:
            process = popen([sys.executable, "-m", "relayer"], env, log, log)
        self.running.append(process)
        return process

    def kill(self, process: Program) -> None:
        process.kill()
        process.wait(PATIENCE)

    def log_of(self, process: Program) -> str:
        return (self.folder / f"relayer-{self.running.index(process)}.log").read_text(errors="replace")

    async def metrics_of(self, process: Program, seconds: float = PATIENCE) -> str:
        file = self.folder / f"ready-{self.running.index(process)}.json"

        async def ready() -> bool:
            assert process.poll() is None, self.log_of(process)
            return await asyncio.to_thread(file.exists)

        await until(ready, "a ready relayer", seconds)
        url = json.loads(await asyncio.to_thread(file.read_text))["metrics"]
        assert isinstance(url, str)
        return url.removesuffix("/metrics")


@contextlib.asynccontextmanager
async def relayer_processes(rig: Rig, folder: Path) -> AsyncIterator[Relayers]:
    write_deployment(
        Deployment(
            network="base",
            name="Base",
            chain_id=rig.chain_id,
            kind="local",
            status="not-deployed",
            start_block=0,
            tokens={},
        ),
        folder / "base.json",
    )
    keys = ["0x" + secrets.token_hex(32) for _ in range(2)]
    for key in keys:
        signer = LocalSigner(bytes.fromhex(key[2:]))
        rig.signers.append(signer)
        await rig.ask("anvil_setBalance", _hex(signer.address), hex(100 * ETHER))
    made = Relayers(rig, folder, keys)
    try:
        yield made
    finally:
        for process in made.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                made.kill(process)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()

"""A whole service for fault tests: PostgreSQL, two chains behind proxies, and several of each daemon. A daemon that
dies is restarted after a second, as by systemd or Kubernetes; one that a test keeps down stays down until the test
starts it. Everything listens on 127.0.0.1 and ends with the fleet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import aiohttp
import psycopg

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.deployments import Deployment, load_deployment
from core.db.migrate import migrate
from core.errors import VpmError
from core.hexadecimal import bytes_of, hex_of
from core.paths import REPOSITORY
from scripts._local.anvil import AnvilOptions, ask, start_anvil
from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer, prepare_postgres, start_postgres
from scripts._local.process import RunningProcess, SpawnPlan, start_process, stop_together
from scripts._stack import wallets
from scripts._stack.deploying import lanes
from scripts._stack.parts import CHAIN_IDS, metrics_variable
from scripts._stack.state import State
from tests.support.faulty_proxy import FaultyProxy
from tests.support.prometheus import samples
from tests.support.questions import Asking
from tests.support.read_replica import Pair

T = TypeVar("T")

FINALITY_BLOCKS = 12
RESTART_SECONDS = 1.0
READY_SECONDS = 90.0
CRON_SECRET = "a-secret-of-the-fleet"


@dataclass(frozen=True, slots=True)
class FleetSize:
    api: int = 3
    indexer: int = 2
    keeper: int = 2
    relayer: int = 2

    def names(self) -> list[str]:
        return [
            f"{daemon}-{number}"
            for daemon in ("indexer", "relayer", "api", "keeper")
            for number in range(getattr(self, daemon))
        ]


class DidNotHappen(VpmError):
    """A wait that ended without its event; the sentence names the event."""


@dataclass
class Fleet:
    """A running stack, each process of which a test can end, stop and start."""

    folder: Path
    genesis: State
    size: FleetSize
    database: PostgresServer
    database_url: str
    urls: dict[str, str]
    proxies: dict[str, FaultyProxy]
    postgres: RunningProcess
    asking: Asking
    session: aiohttp.ClientSession
    api_ports: list[int]
    patience: float = 1.0  # for a machine that is busy with other things: every wait may take so many times as long
    common: Mapping[str, str] = field(default_factory=dict)  # variables of every daemon, over the usual ones
    running: dict[str, RunningProcess] = field(default_factory=dict)
    kept_down: set[str] = field(default_factory=set)
    extra: dict[str, dict[str, str]] = field(default_factory=dict)  # variables of one daemon, over all others
    restarts: int = 0

    # ------------------------------------------------------------ daemons

    @property
    def base_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.api_ports]

    def environment(self, name: str) -> dict[str, str]:
        daemon, _, number = name.rpartition("-")
        public = f"http://127.0.0.1:{self.api_ports[0]}"
        secrets = {
            "relayer": {"VPM_RELAYER_KEYS": ",".join(lanes())},
            "api": {"CRON_SECRET": CRON_SECRET, "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key},
        }
        return {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "DATABASE_URL": self.database_url,
            "VPM_BASE_RPC_URLS": self.proxies["base"].url,
            "VPM_STOCK_RPC_URLS": self.proxies["stock"].url,
            "VPM_DEPLOYMENTS_DIR": str(self.genesis.deployments),
            "VPM_PORT": str(self.api_ports[int(number)] if daemon == "api" else 0),
            "VPM_PUBLIC_URL": public,
            metrics_variable(daemon): "0",
            "VPM_READY_FILE": str(self.ready_file(name)),
            "VPM_BASE_POLL_INTERVAL_MS": "250",
            "VPM_STOCK_POLL_INTERVAL_MS": "250",
            "VPM_BASE_FINALITY_BLOCKS": str(FINALITY_BLOCKS),
            "VPM_STOCK_FINALITY_BLOCKS": str(FINALITY_BLOCKS),
            "VPM_RPC_TIMEOUT_SECONDS": "5",
            "VPM_DATABASE_POOL_SIZE": "4",
            "VPM_TRUST_PROXY": "1",  # so that each bettor of the load has its own limits
            "VPM_ALLOW_PRIVATE_WEBHOOKS": "1",
            "VPM_CUP_OPENS_AT": "2026-01-01T00:00:00Z",
            "VPM_CUP_CLOSES_AT": "2036-01-01T00:00:00Z",
            "VPM_KEEPER_SETTLE_EVERY_SECONDS": "3",
            "VPM_KEEPER_LIST_EVERY_SECONDS": "8",
            "VPM_KEEPER_SNAPSHOT_EVERY_SECONDS": "10",
            "VPM_KEEPER_SOURCES_FILE": str(self.sources_file),
            "VPM_LOG_FORMAT": "console",
            "VPM_STOP_GRACE_SECONDS": "5",
            **secrets.get(daemon, {}),
            **self.common,
            **self.extra.get(name, {}),
        }

    @property
    def sources_file(self) -> Path:
        return self.folder / "sources.toml"

    def ready_file(self, name: str) -> Path:
        return self.folder / f"{name}.ready"

    def start(self, name: str) -> None:
        self.kept_down.discard(name)
        self.ready_file(name).unlink(missing_ok=True)
        command = (sys.executable, "-m", name.rpartition("-")[0])
        plan = SpawnPlan(name, command, env=self.environment(name), cwd=str(REPOSITORY))
        self.running[name] = start_process(plan, self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        self.ready_file(name).unlink(missing_ok=True)
        self.running[name].kill()

    def keep_down(self, name: str) -> None:
        self.kept_down.add(name)
        self.running.pop(name).stop()

    async def until_ready(self, *names: str, seconds: float = READY_SECONDS) -> float:
        return await self.until(
            lambda: all(self.ready_file(name).exists() for name in names), f"{', '.join(names)} ready", seconds
        )

    async def watch(self) -> None:
        while True:
            for name, process in list(self.running.items()):
                if name not in self.kept_down and not process.alive():
                    await asyncio.sleep(RESTART_SECONDS)
                    if name not in self.kept_down and self.running.get(name) is process:
                        self.restarts += 1
                        await asyncio.to_thread(self.start, name)
            await asyncio.sleep(0.2)

    async def metric(self, instance: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        try:
            address = json.loads(self.ready_file(instance).read_text())["metrics"]
            async with self.session.get(address, timeout=aiohttp.ClientTimeout(total=3)) as answer:
                text = await answer.text() if answer.status == 200 else ""
        except (OSError, ValueError, KeyError, aiohttp.ClientError, TimeoutError):
            return {}
        return {tuple(sorted(one["labels"].items())): one["value"] for one in samples(text, [name])}

    def instances(self, daemon: str) -> list[str]:
        return [name for name in self.running if name.startswith(daemon)]

    async def samples(self, daemon: str, name: str) -> list[tuple[tuple[tuple[str, str], ...], float]]:
        return [sample for each in self.instances(daemon) for sample in (await self.metric(each, name)).items()]

    # ------------------------------------------------------------ database

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.asking.rows(query, *values)

    async def ask_database(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self.rows, query, *values)

    async def stop_postgres(self) -> None:
        await asyncio.to_thread(self.postgres.stop)

    async def start_postgres(self) -> None:
        log = self.folder / "postgres.log"
        self.postgres = await asyncio.to_thread(start_postgres, self.database, log)

    def pids(self) -> dict[str, int]:
        pids = {}
        for name in self.running:
            with contextlib.suppress(OSError, ValueError, KeyError):
                pids[name] = json.loads(self.ready_file(name).read_text())["pid"]
        return pids

    def stop_all(self) -> None:
        stop_together(self.running.values())
        self.postgres.stop()

    # ------------------------------------------------------------ chains

    def deployment(self, chain: str) -> Deployment:
        return load_deployment(self.genesis.deployment(chain))

    def contract(self, chain: str, name: str) -> Contract:
        return Contract(self.deployment(chain).contract(name).address, abi(name))

    def token(self, chain: str) -> Contract:
        symbol = "USDC" if chain == "base" else "USDG"
        return Contract(self.deployment(chain).token(symbol).address, abi(f"Local{symbol}"))

    async def rpc(self, chain: str, method: str, *params: object) -> Any:
        return await asyncio.to_thread(ask, self.urls[chain], method, *params, timeout_seconds=30.0)

    async def read(self, chain: str, call: Call) -> Any:
        answer = await self.rpc(chain, "eth_call", call.parameters(), "latest")
        return call.function.decode(bytes_of(answer))

    async def head(self, chain: str) -> dict[str, Any]:
        return dict(await self.rpc(chain, "eth_getBlockByNumber", "latest", False))

    async def now(self, chain: str) -> int:
        return int((await self.head(chain))["timestamp"], 16)

    async def send(self, chain: str, *calls: Call, sender: str = wallets.DEPLOYER.address) -> None:
        """Send transactions of an account that the node impersonates, and wait until all are mined. Raise DidNotHappen
        if one reverts."""
        await self.rpc(chain, "anvil_impersonateAccount", sender)
        sent = []
        for call in calls:
            given = {**call.parameters(), "from": sender, "gas": hex(5_000_000)}
            sent.append((call.to, await self.rpc(chain, "eth_sendTransaction", given)))

        async def mined(to: str, transaction: str) -> bool:
            receipt = await self.rpc(chain, "eth_getTransactionReceipt", transaction)
            if receipt is not None and receipt["status"] != "0x1":
                raise DidNotHappen(f"a transaction to {to} reverted")
            return receipt is not None

        for each in sent:
            await self.until(partial(mined, *each), f"a transaction to {each[0]} mined", 60)

    async def warp(self, chain: str, seconds: int) -> None:
        await self.rpc(chain, "evm_increaseTime", hex(seconds))
        await self.rpc(chain, "evm_mine")

    # ------------------------------------------------------------ waiting

    async def until(
        self, holds: Callable[[], bool | Awaitable[bool]], what: str, seconds: float, pause: float = 0.1
    ) -> float:
        """Wait until `holds` returns true, and return the seconds. Raise DidNotHappen after `seconds` times the fleet's
        patience. Errors of `holds` count as false."""
        began, seconds = time.monotonic(), seconds * self.patience
        while True:
            with contextlib.suppress(psycopg.Error, OSError, ValueError, aiohttp.ClientError, LookupError):
                answer = holds()
                if (await answer) if isinstance(answer, Awaitable) else answer:
                    return time.monotonic() - began
            if time.monotonic() - began > seconds:
                raise DidNotHappen(f"{what}: not within {seconds:.0f} s")
            await asyncio.sleep(pause)

    async def indexed(self, chain: str, seconds: float = 60.0, *, ahead: int = 0) -> float:
        """Wait until the index has the present head of the chain, or `ahead` more blocks."""
        head = int((await self.head(chain))["number"], 16) + ahead

        async def there() -> bool:
            number, digest = await self.index_stands(chain)
            block = await self.rpc(chain, "eth_getBlockByNumber", hex(number), False)
            return number >= head and block is not None and block["hash"] == digest

        return await self.until(there, f"the index of {chain} at block {head}", seconds)

    async def index_stands(self, chain: str) -> tuple[int, str]:
        ((number, digest),) = await self.ask_database(
            "SELECT number, hash FROM chain_cursor WHERE chain_id = %s AND state = 'tail'", CHAIN_IDS[chain]
        )
        return number, hex_of(bytes(digest))


def ran(module: str, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, env=env, cwd=str(REPOSITORY), capture_output=True, text=True, check=False)


@asynccontextmanager
async def fleet(
    folder: Path,
    genesis: State,
    size: FleetSize,
    *,
    patience: float = 1.0,
    proxy: Callable[[str], FaultyProxy] = FaultyProxy,
    common: Mapping[str, str] = MappingProxyType({}),
    pair: Pair | None = None,
) -> AsyncIterator[Fleet]:
    """Run everything, at the head of both chains. `folder` is emptied first. `proxy` makes the proxy before each chain.
    `common` are variables of every daemon, over the usual ones. `pair`: two PostgreSQL servers to use instead of a new
    one."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    (folder / "sources.toml").touch()
    async with AsyncExitStack() as stack:
        urls, proxies = {}, {}
        for name, chain_id in CHAIN_IDS.items():
            options = AnvilOptions(
                chain_id=chain_id,
                port=free_port(),
                block_time_seconds=1,
                accounts=1,
                extra=("--load-state", str(genesis.chain(name)), "--quiet"),
            )
            chain = await asyncio.to_thread(start_anvil, options, folder / f"chain-{name}.log")
            stack.callback(chain.stop)
            urls[name] = options.url
            proxies[name] = await stack.enter_async_context(proxy(options.url))
        if pair is None:
            server = await asyncio.to_thread(prepare_postgres, folder / "postgres", free_port(), max_connections=200)
            postgres = await asyncio.to_thread(start_postgres, server, folder / "postgres.log")
            database_url = server.url()
        else:
            server, postgres, database_url = pair.primary, pair.running, pair.either_url("postgres")
        await asyncio.to_thread(migrate, database_url)
        asking = stack.enter_context(contextlib.closing(Asking(database_url)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        ports = [free_port() for _ in range(size.api)]
        made = Fleet(
            folder,
            genesis,
            size,
            server,
            database_url,
            urls,
            proxies,
            postgres,
            asking,
            session,
            ports,
            patience,
            common,
        )
        stack.callback(made.stop_all)
        for name in size.names():
            made.start(name)
        await made.until_ready(*size.names())
        watching = asyncio.create_task(made.watch())
        try:
            await asyncio.gather(*(made.indexed(chain) for chain in CHAIN_IDS))
            yield made
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

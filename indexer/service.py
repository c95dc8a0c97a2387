"""The daemon: for each configured chain, a service that indexes the chain while it leads."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from core.chain.errors import RpcError
from core.chain.heads import Heads
from core.chain.provider import ChainProvider
from core.config import ChainSettings, Settings
from core.config.settings import CHAIN_NAMES
from core.contracts.deployments import Deployment, load_deployment
from core.contracts.events import UndecodableLog
from core.db.engine import ConnectionPool, make_pool
from core.db.heartbeat import beat_forever
from core.db.leader import Leadership
from core.db.migrate import check_fit
from core.errors import DatabaseError, VpmError
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.service.cancelling import cancel_and_wait
from core.service.daemon import Daemon, run_daemon
from indexer import metrics
from indexer.chain import ChainFollower
from indexer.errors import BeyondFinality, Contradiction, CursorMoved, NodeFault
from indexer.feeds import emitters_of
from indexer.node import RpcNode
from indexer.sources import FeedRounds, feed_proxies, sources_of
from indexer.store.cursor import highest_final

log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 5.0
FEEDS_SECONDS = 600.0
"""How often to check whether a feed has moved to another aggregator."""
STANDBY_SECONDS = 10.0
"""How often a standby process checks that its nodes are usable."""
HALT_AFTER_CONTRADICTIONS = 5
"""This many contradictions in a row are more than one bad response."""


class ChainService:
    """Indexes one configured chain. `run` ends only if cancelled, or with an error that a restart would not fix."""

    def __init__(self, chain: ChainSettings, settings: Settings, pool: ConnectionPool) -> None:
        self.chain = chain
        self.leadership = Leadership(settings.database_url.get_secret_value(), f"indexer:{chain.name}")
        self.follower: ChainFollower | None = None
        self.problem = "starting"
        self.standby_problem = ""  # why this process could not lead, while on standby
        self._settings = settings
        self._pool = pool
        self._worked_at = time.monotonic()
        self._contradictions = 0

    async def run(self) -> None:
        deployment = await self._deployed()
        async with ChainProvider(
            self.chain.rpc_urls, chain_id=deployment.chain_id, timeout_seconds=self._settings.rpc_timeout_seconds
        ) as rpc:
            self.problem = "standing by"
            watching = asyncio.create_task(self._stand_by(rpc, deployment), name=f"standby {self.chain.name}")
            try:
                await self.leadership.run(lambda: self._lead(rpc, deployment))
            finally:
                await cancel_and_wait(watching)

    async def _stand_by(self, rpc: ChainProvider, deployment: Deployment) -> None:
        """Check the nodes while another process leads, so that a wrong node is found before a takeover."""
        while True:
            if not self.leadership.is_leader:
                try:
                    self.standby_problem = await self._check_nodes(RpcNode(rpc), deployment.chain_id)
                except RpcError as error:
                    self.standby_problem = error.message
                except (DatabaseError, psycopg.Error, TimeoutError) as error:
                    log.warning("failed to check the nodes while on standby", action="index.unchecked", why=error)
            await asyncio.sleep(STANDBY_SECONDS)

    async def _check_nodes(self, node: RpcNode, chain_id: int) -> str:
        """Return a sentence if the node serves a different chain with the same id, else "". Raise RpcError if the id
        differs. A node may be behind, or on a fork that is not final."""
        await node.head()
        async with self._pool.connection() as connection:
            final = await highest_final(connection, chain_id)
        if final is None:
            return ""
        (header,) = await node.headers([final.number])
        if header is None or bytes_of(header.hash) == final.hash:
            return ""
        return f"The node serves another chain: its block {final.number} is not the final block in the index."

    async def _deployed(self) -> Deployment:
        """Return the deployment as soon as its contracts are deployed."""
        while not (deployment := load_deployment(self.chain.deployment_file)).is_deployed:
            if self.problem != "not deployed":
                self.problem = "not deployed"
                log.info("no contracts are deployed yet; waiting", action="index.not_deployed", chain=self.chain.name)
            await asyncio.sleep(MAX_PAUSE_SECONDS)
        return deployment

    async def _lead(self, rpc: ChainProvider, deployment: Deployment) -> None:
        heads = Heads(self.chain.ws_urls, self.chain.poll_interval_ms / 1000)
        listening = asyncio.create_task(heads.listen(), name=f"heads {self.chain.name}")
        try:
            while True:
                feeds = await self._feeds(rpc, deployment)
                self.follower = ChainFollower(
                    RpcNode(rpc),
                    sources_of(deployment, self.chain.name, feeds),
                    self._pool,
                    finality_blocks=self.chain.finality_blocks,
                )
                await self._follow(self.follower, heads, rpc, deployment)
                log.info("feeds moved to other aggregators", action="index.feeds_moved", chain=self.chain.name)
        finally:
            await cancel_and_wait(listening)
            self.problem = "standing by"
            metrics.forget_state(self.chain.name)

    async def _feeds(self, rpc: ChainProvider, deployment: Deployment) -> dict[bytes, FeedRounds]:
        """Return the emitters of the feeds' rounds. Retry until a node responds."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await emitters_of(rpc, feed_proxies(deployment))
            except RpcError as error:
                self._record_fault(error.kind.value, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    async def _follow(self, follower: ChainFollower, heads: Heads, rpc: ChainProvider, deployment: Deployment) -> None:
        """Follow the chain. Return once the feeds' rounds come from different emitters."""
        pause = FIRST_PAUSE_SECONDS
        reopen = True
        feeds_asked = time.monotonic()
        while True:
            if time.monotonic() - feeds_asked > FEEDS_SECONDS:
                feeds_asked = time.monotonic()
                if await self._feeds(rpc, deployment) != follower.sources.feeds:
                    return
            try:
                if reopen:
                    await follower.open()
                    reopen = False
                await follower.catch_up()
            except (RpcError, NodeFault, UndecodableLog, Contradiction, BeyondFinality, CursorMoved) as error:
                reopen = isinstance(error, CursorMoved)
                await self._failed(follower, error)
            except (DatabaseError, psycopg.Error) as error:
                reopen = True
                self._record_fault("database", error)
            else:
                self.problem, self._worked_at, self._contradictions = "", time.monotonic(), 0
                pause = FIRST_PAUSE_SECONDS
                await heads.wait()
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    async def _failed(self, follower: ChainFollower, error: VpmError) -> None:
        self._record_fault(error.kind.value if isinstance(error, RpcError) else error.code, error)
        if isinstance(error, Contradiction | UndecodableLog):
            self._contradictions += 1
        if isinstance(error, BeyondFinality) or self._contradictions >= HALT_AFTER_CONTRADICTIONS:
            with contextlib.suppress(DatabaseError, psycopg.Error):
                await follower.halt(error.message)

    def _record_fault(self, kind: str, error: Exception) -> None:
        metrics.FAULTS.labels(self.chain.name, kind).inc()
        message = error.message if isinstance(error, VpmError) else f"{type(error).__name__}: {error}"
        if message != self.problem:
            log.warning(message, action="index.fault", chain=self.chain.name, kind=kind)
        self.problem = message

    async def health(self) -> tuple[bool, str]:
        """Return whether this process is on standby with working nodes, or leads and makes progress."""
        follower = self.follower
        if not self.leadership.is_leader or follower is None or follower.cursor is None:
            if self.problem in ("standing by", "not deployed"):
                return not self.standby_problem, self.standby_problem or self.problem
            return False, self.problem
        where = f"at block {follower.cursor.number}"
        if follower.head is not None:
            where += f" of {follower.head.number}"
        idle = time.monotonic() - self._worked_at
        return not self.problem or idle < 30, f"{where}{': ' + self.problem if self.problem else ''}"


MEASURE_SECONDS = 10.0

_AUDITS = """
SELECT DISTINCT ON (chain_id) name, mismatches, extract(epoch FROM at)::float
FROM chain_audit JOIN chain_cursor USING (chain_id) ORDER BY chain_id, chain_audit.id DESC
"""


@asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    """Follow every chain that has an RPC URL; another process may follow the others."""
    settings = daemon.settings
    url = settings.database_url.get_secret_value()
    await check_fit(settings)
    async with make_pool(url, size=settings.database_pool_size, application_name="vpm-indexer") as pool:
        chains = [settings.chain(name) for name in CHAIN_NAMES]
        services = [ChainService(chain, settings, pool) for chain in chains if chain.rpc_urls]
        if not services:
            log.warning("no chain has an RPC URL, so there is nothing to index", action="index.nothing")
        for service in services:
            daemon.health.add_check(f"chain-{service.chain.name}", service.health)
            daemon.spawn(f"chain {service.chain.name}", service.run())
        beating = beat_forever(
            pool,
            "indexer",
            is_leader=lambda: any(service.leadership.is_leader for service in services),
            detail=lambda: {service.chain.name: _summary(service) for service in services},
        )
        daemon.spawn("heartbeat", beating)
        daemon.spawn("audits", _measure_audits(pool))
        yield


async def _measure_audits(pool: ConnectionPool) -> None:
    """Export the result of each chain's last audit, which ran in another process."""
    while True:
        with contextlib.suppress(psycopg.Error, TimeoutError):
            async with pool.connection() as connection:
                for chain, mismatches, at in await connection.fetch_all(_AUDITS):
                    metrics.AUDIT_MISMATCHES.labels(chain).set(mismatches)
                    metrics.AUDITED.labels(chain).set(at)
        await asyncio.sleep(MEASURE_SECONDS)


def _summary(service: ChainService) -> str:
    return service.problem or ("leading" if service.leadership.is_leader else "standing by")


def serve() -> int:
    return run_daemon("indexer", setup, metrics_port=lambda settings: settings.indexer_metrics_port)

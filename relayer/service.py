"""The relayer daemon: a feed per chain, the leases, and a task per lane it holds."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg

from core.chain import ChainClient, ChainProvider, RpcError
from core.chain.heads import Heads
from core.config import RelayerSecrets, RelayerSettings, load
from core.config.settings import CHAIN_NAMES
from core.contracts.abi import all_errors
from core.contracts.deployments import Deployment, load_deployment
from core.db.channels import OUTBOX_QUEUED, Resync, listen
from core.db.engine import ConnectionPool, make_pool
from core.db.heartbeat import beat_forever
from core.db.migrate import check_fit
from core.errors import ConfigError
from core.log import get_logger
from core.service.cancelling import cancel_and_wait
from core.service.daemon import Daemon
from core.service.health import Check
from relayer.feed import BEHIND_SECONDS, IDLE_POLL_SECONDS, ChainFeed
from relayer.keys import check_separate_keys, lane_specs, open_kms_keys, read_keys
from relayer.kms.signer import KmsPatience, KmsSigner
from relayer.lane import Lane
from relayer.leases import LaneSpec, Lease, Leases
from relayer.metrics import ECONOMY_SECONDS, QUEUES_SECONDS, Gauges
from relayer.pending_notices import NOTICES_SECONDS, PendingNotices
from relayer.policy import LanePolicy, policy_from

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RelayChain:
    """A chain: its feed, the limits of its lanes, its subscription to new blocks, and the intents its lanes are
    checking."""

    feed: ChainFeed
    policy: LanePolicy
    heads: Heads
    claims: set[int] = field(default_factory=set)


class Relayer:
    """The relayer of one process. `tasks()` are its endless tasks."""

    def __init__(
        self,
        url: str,
        pool: ConnectionPool,
        chains: dict[str, RelayChain],
        specs: Sequence[LaneSpec],
        *,
        lease_seconds: float,
    ) -> None:
        self.chains = chains
        self.leases = Leases(url, specs, lease_seconds=lease_seconds, gained=self._start_lane, lost=self._end_lane)
        self._signers = {spec.signer.address: spec.signer for spec in specs}.values()
        self._url = url
        self.pool = pool
        self._lanes: dict[int, tuple[Lane, asyncio.Task[None]]] = {}
        for each in chains.values():
            each.feed.is_idle = partial(self._is_idle, each)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return the tasks by name. Cancel `leases` first: that ends and releases the lanes, which need the feeds."""
        names = {each.feed.chain_id: name for name, each in self.chains.items()}
        gauges, notices = Gauges(self.pool, names), PendingNotices(self.pool, names)
        return {
            "leases": self.leases.run(),
            "wake-ups": self._listen(),
            **{f"signer {each!r}": each.watch() for each in self._signers if isinstance(each, KmsSigner)},
            "queues": poll_forever(gauges.read_queues, QUEUES_SECONDS, what="the queues"),
            "economy": poll_forever(gauges.read_economy, ECONOMY_SECONDS, what="the day's gas"),
            "pending notices": poll_forever(notices.poll_once, NOTICES_SECONDS, what="the pending notices"),
            **{f"feed {name}": each.feed.run() for name, each in self.chains.items()},
            **{f"heads {name}": each.heads.listen() for name, each in self.chains.items()},
            **{f"announcements {name}": self._poll_on_announcement(each) for name, each in self.chains.items()},
        }

    def lanes(self) -> list[Lane]:
        return [lane for lane, _ in self._lanes.values()]

    def _is_idle(self, chain: RelayChain) -> bool:
        return all(lane.is_idle for lane in self.lanes() if lane.lease.chain_id == chain.feed.chain_id)

    def _start_lane(self, spec: LaneSpec, lease: Lease) -> None:
        chain = self.chains[spec.chain]
        policy = chain.policy.for_groups(spec.groups)
        lane = Lane(lease, chain.feed, self.pool, policy=policy, claims=chain.claims)
        task = asyncio.create_task(lane.run(), name=f"lane {spec.chain} {lane.name}")
        self._lanes[lease.lane_id] = (lane, task)

    async def _end_lane(self, lease: Lease) -> None:
        _, task = self._lanes.pop(lease.lane_id)
        await cancel_and_wait(task)

    async def _poll_on_announcement(self, chain: RelayChain) -> None:
        """Poll at once when a block is announced and a transaction waits for one. Otherwise the feed's interval is soon
        enough and causes fewer requests on a busy chain."""
        while True:
            from_node = await chain.heads.wait()
            if from_node and any(lane.in_flight for lane in self.lanes() if lane.lease.chain_id == chain.feed.chain_id):
                chain.feed.poll_now()

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, OUTBOX_QUEUED)) as signals:
            async for queued in signals:
                for lane, _task in list(self._lanes.values()):
                    if isinstance(queued, Resync):
                        lane.wake(None)
                    elif queued.chain_id == lane.lease.chain_id:
                        lane.wake(queued.group)


async def poll_forever(poll_once: Callable[[], Awaitable[None]], every_seconds: float, *, what: str) -> None:
    """Read the database at intervals forever. A failed read is logged as `what` and does not stop the next one."""
    while True:
        try:
            await poll_once()
        except (psycopg.Error, TimeoutError) as error:
            log.warning(f"failed to read {what}", action="relayer.poll_failed", why=error)
        await asyncio.sleep(every_seconds)


@contextlib.asynccontextmanager
async def open_chain(
    name: str,
    chain_id: int,
    rpc_urls: Sequence[str],
    policy: LanePolicy,
    *,
    finality_blocks: int,
    poll_seconds: float,
    rpc_timeout_seconds: float = 10.0,
    ws_urls: Sequence[str] = (),
    behind_seconds: float = BEHIND_SECONDS,
    idle_seconds: float = IDLE_POLL_SECONDS,
) -> AsyncIterator[RelayChain]:
    """Open the connections to one chain."""
    provider = ChainProvider(
        rpc_urls, chain_id=chain_id, timeout_seconds=rpc_timeout_seconds, max_batch=policy.rpc_batch_size
    )
    async with provider as rpc:
        feed = ChainFeed(
            ChainClient(rpc),
            name,
            chain_id,
            finality_blocks=finality_blocks,
            poll_seconds=poll_seconds,
            behind_seconds=behind_seconds,
            idle_seconds=idle_seconds,
        )
        yield RelayChain(feed, policy, Heads(ws_urls, poll_seconds))


@contextlib.asynccontextmanager
async def open_relayer(
    url: str, chains: Sequence[RelayChain], specs: Sequence[LaneSpec], *, lease_seconds: float, pool_size: int = 6
) -> AsyncIterator[Relayer]:
    """Open the relayer's database connections; the caller runs its tasks."""
    # Lanes poll with single statements; `LaneStore` opens transactions where it needs them.
    async with make_pool(url, size=pool_size, autocommit=True, application_name="vpm-relayer") as pool:
        named = {each.feed.name: each for each in chains}
        yield Relayer(url, pool, named, specs, lease_seconds=lease_seconds)


@contextlib.asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    """Open the daemon's resources, run its checks and start its tasks."""
    settings, options = daemon.settings, load(RelayerSettings)
    secrets = load(RelayerSecrets)
    keys = await asyncio.to_thread(read_keys, secrets)
    configured = {name: settings.chain(name) for name in CHAIN_NAMES if settings.chain(name).rpc_urls}
    if not configured:
        raise ConfigError("No chain has an RPC URL.", hint="Set VPM_BASE_RPC_URLS or VPM_STOCK_RPC_URLS.")
    deployments: dict[str, Deployment] = {
        name: load_deployment(chain.deployment_file) for name, chain in configured.items()
    }
    url = settings.database_url.get_secret_value()
    await check_fit(settings)
    async with contextlib.AsyncExitStack() as stack:
        patience = KmsPatience(options.kms_at_once, options.kms_patience_seconds)
        keys += await stack.enter_async_context(open_kms_keys(secrets.keystore_files, patience))
        specs = lane_specs(keys, {name: each.chain_id for name, each in deployments.items()})
        check_separate_keys(specs, live=[name for name, each in deployments.items() if each.kind != "local"])
        errors = all_errors()
        chains = [
            await stack.enter_async_context(
                open_chain(
                    name,
                    deployments[name].chain_id,
                    chain.rpc_urls,
                    policy_from(options, name, errors),
                    finality_blocks=chain.finality_blocks,
                    poll_seconds=chain.poll_interval_ms / 1000,
                    rpc_timeout_seconds=settings.rpc_timeout_seconds,
                    ws_urls=chain.ws_urls,
                )
            )
            for name, chain in configured.items()
        ]
        relayer = await stack.enter_async_context(
            open_relayer(url, chains, specs, lease_seconds=options.lease_seconds, pool_size=settings.database_pool_size)
        )
        for each in chains:
            await _check_chain_id(each.feed)
            daemon.health.add_check(f"chain {each.feed.name}", _chain_check(each.feed))
        daemon.health.add_check("lanes", lanes_check(relayer))
        for name, task in relayer.tasks().items():
            daemon.spawn(name, task)
        beat = beat_forever(relayer.pool, "relayer", detail=lambda: {"lanes": len(relayer.lanes())})
        daemon.spawn("heartbeat", beat)
        yield


async def _check_chain_id(feed: ChainFeed) -> None:
    """Check the chain's id. A wrong chain is fatal; a node that does not answer is not, so that the other chain's lanes
    need not wait for it."""
    try:
        await feed.client.provider.start()
    except RpcError as error:
        log.warning(error.message, action="relayer.no_node", chain=feed.name)
        feed.client.provider.open()


def _chain_check(feed: ChainFeed) -> Check:
    async def check() -> tuple[bool, str]:
        if feed.down_since is not None:
            return False, f"no node has answered for {time.monotonic() - feed.down_since:.0f} s"
        return feed.has_head, f"head {feed.head.number}" if feed.has_head else "no head yet"

    return check


def lanes_check(relayer: Relayer) -> Check:
    async def check() -> tuple[bool, str]:
        lanes = relayer.lanes()
        bad = [f"{lane.name}: {lane.detail}" for lane in lanes if not lane.is_healthy]
        return not bad, "; ".join(bad) or f"{len(lanes)} held"

    return check

"""The relayer daemon: a feed per chain, the leases, and a task per lane it holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg

from core.chain import ChainClient, ChainProvider, RpcError
from core.chain.heads import Heads
from core.config import RelayerSecrets, RelayerSettings, load
from core.config.settings import CHAIN_NAMES, ChainSettings
from core.contracts.abi import all_errors
from core.contracts.deployments import load_deployment
from core.db.channels import OUTBOX_QUEUED, Resync, listen
from core.db.engine import ConnectionPool, make_pool
from core.db.heartbeat import beat_forever
from core.db.migrate import check_fit
from core.errors import ConfigError
from core.log import get_logger
from core.service.cancelling import cancel_and_wait
from core.service.daemon import Daemon
from relayer.feed import ChainFeed
from relayer.kms import KmsPatience, KmsSigner, open_kms_keys
from relayer.lane import Lane
from relayer.leases import LaneSpec, Lease, Leases, check_separate_keys, lane_specs
from relayer.metrics import ECONOMY_SECONDS, QUEUES_SECONDS, Gauges
from relayer.pending_notices import NOTICES_SECONDS, PendingNotices
from relayer.policy import LanePolicy, policy_from
from relayer.signing import read_keys

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RelayChain:
    """A chain: its feed, the limits of its lanes, its subscription to new blocks, and the intents that its lanes are
    checking."""

    feed: ChainFeed
    policy: LanePolicy
    heads: Heads
    claims: set[int] = field(default_factory=set)


class Relayer:
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
            each.feed.is_idle = partial(self._is_idle, each.feed)

    def tasks(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return the endless tasks. Cancel `leases` first: that ends and releases the lanes, which need the feeds."""
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

    async def check_lanes(self) -> tuple[bool, str]:
        bad = [f"{lane.name}: {lane.detail}" for lane in self.lanes() if not lane.is_healthy]
        return not bad, "; ".join(bad) or f"{len(self._lanes)} held"

    def _is_idle(self, feed: ChainFeed) -> bool:
        return all(lane.is_idle for lane in self.lanes() if lane.lease.chain_id == feed.chain_id)

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
        """Poll at once when a block is announced while a transaction is waiting for one."""
        while True:
            from_node = await chain.heads.wait()
            if from_node and not chain.feed.is_idle():
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
    while True:
        try:
            await poll_once()
        except (psycopg.Error, TimeoutError) as error:
            log.warning(f"failed to read {what}", action="relayer.poll_failed", why=error)
        await asyncio.sleep(every_seconds)


@contextlib.asynccontextmanager
async def open_chain(
    name: str, chain_id: int, chain: ChainSettings, policy: LanePolicy, *, rpc_timeout_seconds: float = 10.0
) -> AsyncIterator[RelayChain]:
    provider = ChainProvider(
        chain.rpc_urls, chain_id=chain_id, timeout_seconds=rpc_timeout_seconds, max_batch=policy.rpc_batch_size
    )
    poll_seconds = chain.poll_interval_ms / 1000
    async with provider as rpc:
        feed = ChainFeed(ChainClient(rpc), name, chain_id, chain.finality_blocks, poll_seconds)
        yield RelayChain(feed, policy, Heads(chain.ws_urls, poll_seconds))


@contextlib.asynccontextmanager
async def open_relayer(
    url: str, chains: Sequence[RelayChain], specs: Sequence[LaneSpec], *, lease_seconds: float, pool_size: int = 6
) -> AsyncIterator[Relayer]:
    # Lanes poll with single statements; `LaneStore` opens transactions where it needs them.
    async with make_pool(url, size=pool_size, autocommit=True, application_name="vpm-relayer") as pool:
        named = {each.feed.name: each for each in chains}
        yield Relayer(url, pool, named, specs, lease_seconds=lease_seconds)


@contextlib.asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    settings, options = daemon.settings, load(RelayerSettings)
    secrets = load(RelayerSecrets)
    keys = await asyncio.to_thread(read_keys, secrets)
    configured = {name: settings.chain(name) for name in CHAIN_NAMES if settings.chain(name).rpc_urls}
    if not configured:
        raise ConfigError("No chain has an RPC URL.", hint="Set VPM_BASE_RPC_URLS or VPM_STOCK_RPC_URLS.")
    deployments = {name: load_deployment(chain.deployment_file) for name, chain in configured.items()}
    url = settings.database_url.get_secret_value()
    await check_fit(settings)
    async with contextlib.AsyncExitStack() as stack:
        patience = KmsPatience(options.kms_at_once, options.kms_patience_seconds)
        keys += await stack.enter_async_context(open_kms_keys(secrets.keystore_files, patience))
        specs = lane_specs(keys, {str(name): each.chain_id for name, each in deployments.items()})
        check_separate_keys(specs, live=[name for name, each in deployments.items() if each.kind != "local"])
        errors = all_errors()
        chains = [
            await stack.enter_async_context(
                open_chain(
                    name,
                    deployments[name].chain_id,
                    chain,
                    policy_from(options, name, errors),
                    rpc_timeout_seconds=settings.rpc_timeout_seconds,
                )
            )
            for name, chain in configured.items()
        ]
        relayer = await stack.enter_async_context(
            open_relayer(url, chains, specs, lease_seconds=options.lease_seconds, pool_size=settings.database_pool_size)
        )
        for each in chains:
            await _check_chain_id(each.feed)
            daemon.health.add_check(f"chain {each.feed.name}", each.feed.check)
        daemon.health.add_check("lanes", relayer.check_lanes)
        for name, task in relayer.tasks().items():
            daemon.spawn(name, task)
        beat = beat_forever(relayer.pool, "relayer", detail=lambda: {"lanes": len(relayer.lanes())})
        daemon.spawn("heartbeat", beat)
        yield


async def _check_chain_id(feed: ChainFeed) -> None:
    """Raise an error if the node is on the wrong chain. A node that does not respond causes no error, so that the lanes
    of other chains need not wait."""
    try:
        await feed.client.provider.start()
    except RpcError as error:
        log.warning(error.message, action="relayer.no_node", chain=feed.name)
        feed.client.provider.open()

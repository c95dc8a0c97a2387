"""The relayer as one daemon: a feed per chain, the leases, and a task per lane held."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.chain import ChainClient, ChainProvider, RpcError
from core.chain.heads import Heads
from core.config import RelayerSecrets, RelayerSettings, Settings, load
from core.config.settings import CHAIN_NAMES
from core.contracts.abi import all_errors
from core.contracts.deployments import Deployment, load_deployment
from core.db.channels import OUTBOX_QUEUED, Resync, listen
from core.db.engine import ConnectionPool, check_database, make_pool
from core.db.heartbeat import beat_forever
from core.db.migrate import check_schema_at
from core.errors import ConfigError
from core.log import get_logger
from core.service.cancelling import end
from core.service.daemon import Daemon
from core.service.health import Check
from relayer.feed import BEHIND_SECONDS, ChainFeed
from relayer.keys import check_apart, lane_specs, opened_keys, read_keys
from relayer.kms.signer import KmsPatience, KmsSigner
from relayer.lane import Lane
from relayer.leases import LaneSpec, Lease, Leases
from relayer.pending_notices import PendingNotices
from relayer.policy import LanePolicy, policy_of
from relayer.polling import ECONOMY_SECONDS, QUEUES_SECONDS, Gauges, poll_forever

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """One chain to send to."""

    name: str
    chain_id: int
    rpc_urls: tuple[str, ...] = field(repr=False)
    finality_blocks: int
    poll_seconds: float
    policy: LanePolicy
    rpc_timeout_seconds: float = 10.0
    ws_urls: tuple[str, ...] = field(default=(), repr=False)
    behind_seconds: float = BEHIND_SECONDS


@dataclass(frozen=True, slots=True)
class Followed:
    """One chain at work: what its lanes see of it, what they may do, and where news of blocks comes from."""

    feed: ChainFeed
    policy: LanePolicy
    heads: Heads


class Relayer:
    """What runs in one process. `works()` are its endless tasks."""

    def __init__(
        self,
        url: str,
        pool: ConnectionPool,
        chains: dict[str, Followed],
        specs: Sequence[LaneSpec],
        *,
        lease_seconds: float,
    ) -> None:
        self.chains = chains
        self.leases = Leases(url, specs, lease_seconds=lease_seconds, gained=self._gained, lost=self._lost)
        self._signers = {spec.signer.address: spec.signer for spec in specs}.values()
        self._url = url
        self.pool = pool
        self._lanes: dict[int, tuple[Lane, asyncio.Task[None]]] = {}
        self._claims: dict[str, set[int]] = {name: set() for name in chains}

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """By name; cancelling `leases` ends the lanes and gives them back, so cancel it before the feeds."""
        gauges = Gauges(self.pool, {each.feed.chain_id: name for name, each in self.chains.items()})
        return {
            "leases": self.leases.run(),
            "wake-ups": self._listen(),
            **{f"signer {each!r}": each.watch() for each in self._signers if isinstance(each, KmsSigner)},
            "queues": poll_forever(gauges.read_queues, QUEUES_SECONDS, what="the queues"),
            "economy": poll_forever(gauges.read_economy, ECONOMY_SECONDS, what="the day's gas"),
            "pending notices": PendingNotices(self.pool, [each.feed.chain_id for each in self.chains.values()]).run(),
            **{f"feed {name}": each.feed.run() for name, each in self.chains.items()},
            **{f"heads {name}": each.heads.listen() for name, each in self.chains.items()},
            **{f"hurry {name}": self._hurry(each) for name, each in self.chains.items()},
        }

    def lanes(self) -> list[Lane]:
        return [lane for lane, _ in self._lanes.values()]

    def _gained(self, spec: LaneSpec, lease: Lease) -> None:
        chain = self.chains[spec.chain]
        policy = chain.policy.for_groups(spec.groups)
        lane = Lane(lease, chain.feed, self.pool, policy=policy, claims=self._claims[spec.chain])
        task = asyncio.create_task(lane.run(), name=f"lane {spec.chain} {lane.name}")
        self._lanes[lease.lane_id] = (lane, task)

    async def _lost(self, lease: Lease) -> None:
        _, task = self._lanes.pop(lease.lane_id)
        await end(task)

    async def _hurry(self, chain: Followed) -> None:
        """Read a block that a node announces at once if a transaction waits for one; otherwise the feed's clock will
        do, and saves a busy chain's node the questions."""
        while True:
            from_node = await chain.heads.news()
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


@contextlib.asynccontextmanager
async def relaying(
    url: str, chains: Sequence[ChainPlan], specs: Sequence[LaneSpec], *, lease_seconds: float, pool_size: int = 6
) -> AsyncIterator[Relayer]:
    """Open what a relayer needs; the caller runs its works."""
    async with contextlib.AsyncExitStack() as stack:
        # A lane asks for work all the time, with one statement; what must be one is a transaction of `LaneStore`.
        making = make_pool(url, size=pool_size, autocommit=True, application_name="vpm-relayer")
        pool = await stack.enter_async_context(making)
        followed = {}
        for chain in chains:
            rpc = ChainProvider(
                chain.rpc_urls,
                chain_id=chain.chain_id,
                timeout_seconds=chain.rpc_timeout_seconds,
                max_batch=chain.policy.rpc_batch_size,
            )
            client = ChainClient(await stack.enter_async_context(rpc))
            feed = ChainFeed(
                client,
                chain.name,
                chain.chain_id,
                finality_blocks=chain.finality_blocks,
                poll_seconds=chain.poll_seconds,
                behind_seconds=chain.behind_seconds,
            )
            followed[chain.name] = Followed(feed, chain.policy, Heads(chain.ws_urls, chain.poll_seconds))
        yield Relayer(url, pool, followed, specs, lease_seconds=lease_seconds)


def chain_plans(settings: Settings, how: RelayerSettings) -> list[ChainPlan]:
    """Return the chains that have an RPC URL. ConfigError when none has."""
    errors = all_errors()
    plans = []
    for name in CHAIN_NAMES:
        chain = settings.chain(name)
        if not chain.rpc_urls:
            continue
        plans.append(
            ChainPlan(
                name=name,
                chain_id=load_deployment(chain.deployment_file).chain_id,
                rpc_urls=chain.rpc_urls,
                finality_blocks=chain.finality_blocks,
                poll_seconds=chain.poll_interval_ms / 1000,
                policy=policy_of(how, name, errors),
                rpc_timeout_seconds=settings.rpc_timeout_seconds,
                ws_urls=chain.ws_urls,
            )
        )
    if not plans:
        raise ConfigError("No chain has an RPC URL.", hint="Set VPM_BASE_RPC_URLS or VPM_STOCK_RPC_URLS.")
    return plans


@contextlib.asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    """The daemon's resources, checks and tasks."""
    settings, how = daemon.settings, load(RelayerSettings)
    secrets = load(RelayerSecrets)
    keys = await asyncio.to_thread(read_keys, secrets)
    plans = chain_plans(settings, how)
    configured = {plan.name for plan in plans}
    deployments: dict[str, Deployment] = {
        name: load_deployment(settings.chain(name).deployment_file) for name in CHAIN_NAMES if name in configured
    }
    url = settings.database_url.get_secret_value()
    await check_database(url, connect_timeout_seconds=settings.database_connect_timeout_seconds)
    await check_schema_at(url)
    async with contextlib.AsyncExitStack() as stack:
        patience = KmsPatience(how.kms_at_once, how.kms_patience_seconds)
        opening = opened_keys(secrets.keystore_files, deployments, patience, gcp_url=how.gcp_kms_url)
        keys += await stack.enter_async_context(opening)
        specs = lane_specs(keys, {plan.name: plan.chain_id for plan in plans})
        check_apart(specs, live=[name for name, each in deployments.items() if each.kind != "local"])
        relayer = await stack.enter_async_context(
            relaying(url, plans, specs, lease_seconds=how.lease_seconds, pool_size=settings.database_pool_size)
        )
        for name, chain in relayer.chains.items():
            await _greet(name, chain.feed.client.provider)
            daemon.health.add_check(f"chain {name}", _chain_check(chain.feed))
        daemon.health.add_check("lanes", lanes_check(relayer))
        for name, work in relayer.works().items():
            daemon.spawn_endless(name, work)
        beat = beat_forever(relayer.pool, "relayer", detail=lambda: {"lanes": len(relayer.lanes())})
        daemon.spawn_endless("heartbeat", beat)
        yield


async def _greet(name: str, rpc: ChainProvider) -> None:
    """A wrong chain is fatal; a node that is away is not, since the other chain's lanes need not wait for it."""
    try:
        await rpc.start()
    except RpcError as error:
        log.warning(error.message, action="relayer.no_node", chain=name)
        rpc.open()


def _chain_check(feed: ChainFeed) -> Check:
    async def check() -> tuple[bool, str]:
        if feed.down_since is not None:
            return False, f"no node has answered for {time.monotonic() - feed.down_since:.0f} s"
        return feed.has_head, f"head {feed.head.number}" if feed.has_head else "no head yet"

    return check


def lanes_check(relayer: Relayer) -> Check:
    async def check() -> tuple[bool, str]:
        lanes = relayer.lanes()
        bad = [f"{lane.name}: {lane.detail}" for lane in lanes if not lane.well]
        return not bad, "; ".join(bad) or f"{len(lanes)} held"

    return check

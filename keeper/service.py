"""The keeper daemon: while it is the leader, it runs the jobs, on schedule and on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import aiohttp
import psycopg
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from core.chain import ChainClient, ChainProvider, RpcError
from core.config import ChainName, KeeperSettings, Settings, load
from core.config.settings import CHAIN_NAMES
from core.contracts.deployments import load_deployment
from core.db.channels import KEEPER_JOB, Subscription
from core.db.engine import Connection, make_engine, make_pool
from core.db.heartbeat import INSTANCE, beat_forever
from core.db.leader import Leadership
from core.db.migrate import check_fit
from core.log import get_logger
from core.outbox import IntentWatch
from core.service import jobs
from core.service.cancelling import cancel_and_wait, raise_if_cancelled
from core.service.daemon import Daemon
from keeper import metrics
from keeper.jobs import BY_NAME, JOBS, Job, Runner, wait_for_hashes
from keeper.run import Keeper, KeeperChain, RunReport
from keeper.sources import load_sources

log = get_logger(__name__)
T = TypeVar("T")

ROLE = "keeper"
STALLED_AFTER_PERIODS = 5
MIN_STALLED_SECONDS = 120.0
SPREAD_SECONDS = 0.1
"""The time between the first runs of two jobs, so that they do not all start at once."""
REQUEST_HASH_SECONDS = 8.0
DATABASE_RETRY_SECONDS = 1.0
POLL_SECONDS = 30.0
CLOCK_CHECK_SECONDS = 1.0
CLOCK_STEP_SECONDS = 0.5
"""A larger change between two checks means that the clock was set."""

logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it logs every run


@contextlib.asynccontextmanager
async def open_keeper(settings: Settings, how: KeeperSettings) -> AsyncIterator[Keeper]:
    """Open what jobs need, after checking the database, its schema, the sources file and the nodes' chains."""
    url = settings.database_url.get_secret_value()
    load_sources(how.sources_file)
    await check_fit(settings)
    async with contextlib.AsyncExitStack() as stack:
        pool = await stack.enter_async_context(
            make_pool(url, size=settings.database_pool_size, autocommit=True, application_name="vpm-keeper")
        )
        engine = make_engine(url, pool_size=4, application_name="vpm-keeper")
        stack.push_async_callback(engine.dispose)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        chains: dict[ChainName, KeeperChain] = {}
        for name in CHAIN_NAMES:
            chain = settings.chain(name)
            if not chain.rpc_urls:
                continue
            deployment = load_deployment(chain.deployment_file)
            timeout = settings.rpc_timeout_seconds
            rpc = ChainProvider(chain.rpc_urls, chain_id=deployment.chain_id, timeout_seconds=timeout)
            stack.push_async_callback(rpc.close)
            try:
                await rpc.start()
            except RpcError as error:  # an unreachable node is not fatal; a wrong chain raises another error
                log.warning(error.message, action="keeper.no_node", chain=name)
                rpc.open()
            client = ChainClient(rpc)
            count = len(chain.rpc_urls)
            single_nodes = tuple(client.pinned(position) for position in range(count)) if count > 1 else ()
            chains[name] = KeeperChain(name, deployment, client, single_nodes)
        yield Keeper(settings, how, pool, engine, http, chains)


class KeeperService:
    """The scheduler of the jobs, which runs while this process is the leader."""

    def __init__(self, keeper: Keeper, url: str) -> None:
        self.runner = Runner(keeper)
        self.leadership = Leadership(url, ROLE)
        self._keeper = keeper
        self._url = url
        self._finished: dict[str, float] = {}
        self._periods: dict[str, float] = {}
        self._led_since = 0.0
        self._runs: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[None]

    async def run(self) -> None:
        await self.leadership.run(self._lead)

    async def _lead(self) -> None:
        is_first, self._led_since = not self._led_since, time.monotonic()
        self._finished.clear()
        self._failed = asyncio.get_running_loop().create_future()
        # One run replaces all runs that were missed or became due during another run.
        once = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=once)
        for job in JOBS:
            if (unavailable_reason := self.runner.unavailable_reason(job)) is not None:
                log.info(unavailable_reason, action="keeper.job_off", job=job.name)
            if (period := self.runner.period(job)) is None:
                continue
            self._periods[job.name] = period
            metrics.PERIOD.labels(job.name).set(period)
            if is_first:
                metrics.record_success(job.name)
            first = datetime.now(UTC) + timedelta(seconds=len(scheduler.get_jobs()) * SPREAD_SECONDS)
            every = IntervalTrigger(seconds=period, timezone=UTC)
            scheduler.add_job(self._run, every, [job], id=job.name, next_run_time=first)
        scheduler.start()
        tasks = [asyncio.ensure_future(self._serve_requests()), asyncio.ensure_future(_watch_the_clock(scheduler))]
        try:
            ended, _ = await asyncio.wait([*tasks, self._failed], return_when=asyncio.FIRST_COMPLETED)
            for each in ended:  # none of them returns without an error
                each.result()
        finally:
            scheduler.shutdown(wait=False)
            await cancel_and_wait(*tasks, *self._runs)
            metrics.clear_state()
            self._keeper.memory.clear()

    async def _run(self, job: Job) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._runs.add(task)
        try:
            await self.runner.run(job)
            raise_if_cancelled()
            self._finished[job.name] = time.monotonic()
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
        finally:
            self._runs.discard(task)

    async def _serve_requests(self) -> None:
        """Run requested jobs one by one until cancelled. Also poll for requests: if a keeper dies while running a job,
        nothing announces that job again."""
        requests = Subscription()
        async with IntentWatch(self._url, self._keeper.pool) as watch, requests.listening(self._url, KEEPER_JOB):
            while True:
                requests.clear()
                await self._serve_all(watch)
                await requests.wait(POLL_SECONDS)

    async def _serve_all(self, watch: IntentWatch) -> None:
        while (request := await self._with_retries(lambda connection: jobs.claim(connection, INSTANCE))) is not None:
            job = BY_NAME.get(request.job)
            if job is None:
                now = datetime.now(UTC)
                why = f"There is no job {request.job}; the jobs are {', '.join(BY_NAME)}."
                report = RunReport(request.job, now, now, errors=[why])
            else:
                report = await self.runner.run(job)
                await wait_for_hashes(report, watch, REQUEST_HASH_SECONDS)
            await self._with_retries(partial(jobs.finish, job_id=request.id, report=report.body()))

    async def _with_retries(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Retry a query until the database responds: a request is announced only once, and its requester waits for the
        report."""
        while True:
            try:
                async with self._keeper.pool.connection() as connection:
                    return await ask(connection)
            except (psycopg.Error, TimeoutError) as error:
                log.warning("failed to read job requests; retrying", action="keeper.requests_wait", why=error)
                await asyncio.sleep(DATABASE_RETRY_SECONDS)

    async def health(self) -> tuple[bool, str]:
        """Return whether this keeper is on standby, or is the leader and has every job on time."""
        if not self.leadership.is_leader:
            return True, "standing by"
        now = time.monotonic()
        late = []
        for name, period in self._periods.items():
            since = now - self._finished.get(name, self._led_since)
            if since > max(period * STALLED_AFTER_PERIODS, MIN_STALLED_SECONDS):
                late.append(f"{name} has not finished for {since:.0f} s")
        return not late, "; ".join(late) or f"leading {len(self._periods)} jobs"


async def _watch_the_clock(scheduler: AsyncIOScheduler) -> None:
    """Run every job soon after the machine's clock is set. Jobs are scheduled by wall time. Without this, no job would
    run after the clock was set back, until the clock caught up."""
    ahead = time.time() - time.monotonic()
    while True:
        await asyncio.sleep(CLOCK_CHECK_SECONDS)
        before, ahead = ahead, time.time() - time.monotonic()
        if abs(ahead - before) > CLOCK_STEP_SECONDS:
            change = round(ahead - before, 1)
            log.warning("the system clock changed; rescheduling all jobs", action="keeper.clock_set", seconds=change)
            for job in scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))


@contextlib.asynccontextmanager
async def setup(daemon: Daemon) -> AsyncIterator[None]:
    settings = daemon.settings
    async with open_keeper(settings, load(KeeperSettings)) as keeper:
        work = KeeperService(keeper, settings.database_url.get_secret_value())
        daemon.health.add_check("jobs", work.health)
        for chain in keeper.chains.values():
            daemon.health.add_check(f"chain {chain.name}", partial(_chain_health, chain))
        daemon.spawn("jobs", work.run())
        beat = beat_forever(keeper.pool, "keeper", is_leader=lambda: work.leadership.is_leader)
        daemon.spawn("heartbeat", beat)
        yield


async def _chain_health(chain: KeeperChain) -> tuple[bool, str]:
    head = await chain.client.head(timeout_seconds=1.5)
    return True, f"head {head.number}"

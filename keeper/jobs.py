"""The list of jobs, and a runner for them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy.exc import SQLAlchemyError

from core.chain import Block, RpcError
from core.chain.heads import why_head_is_late
from core.config import ChainName, KeeperSettings
from core.errors import VpmError
from core.log import get_logger
from core.outbox import HAS_HASH, IntentWatch
from keeper import metrics
from keeper.agent.canary_job import canary
from keeper.agent.caps_job import check_caps
from keeper.agent.credit import credit
from keeper.agent.listing import list_rounds, list_series
from keeper.agent.pay import pay
from keeper.agent.record import record_readings
from keeper.agent.resolve import resolve_markets as resolve_agent_markets
from keeper.agent.snapshot_job import snapshot
from keeper.cup import follow_markets, spin
from keeper.run import JobRun, Keeper, KeeperChain, RunReport, index_state
from keeper.stock.deliver import deliver
from keeper.stock.opening import open_drills, open_markets, open_refund_drill
from keeper.stock.price_job import move_prices
from keeper.stock.resolve import resolve_markets
from keeper.stock.witness import witness_stocks
from keeper.tidy_job import tidy, tidy_agent

log = get_logger(__name__)

TIMEOUT_SECONDS = 90.0
HEAD_SECONDS = 1.0
TIDY_SECONDS = 3600.0
CAPS_SECONDS = 1800.0  # reads every tick of each pool: thousands of node calls


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `every` is its period in seconds, or a function that returns the period. The period is None for a job that
    only runs on demand."""

    name: str
    purpose: str
    chain: ChainName
    work: Callable[[JobRun], Awaitable[None]]
    every: Callable[[KeeperSettings], float | None] | float | None
    local_only: bool = False
    local_period: float | None = None
    """The longest period on local deployments, where a person is watching."""
    reads_chain: bool = True
    """Whether a run reads the chain's newest block; otherwise its head is the last indexed block."""


def _drills(how: KeeperSettings) -> float | None:
    return 10.0 if how.local_drills else None


def _prices(how: KeeperSettings) -> float | None:
    return min(20.0, how.snapshot_every_seconds) if how.local_prices else None


def _canary(how: KeeperSettings) -> float | None:
    return how.canary_every_seconds if how.canary else None


LIST, SETTLE = attrgetter("list_every_seconds"), attrgetter("settle_every_seconds")
SNAPSHOT = attrgetter("snapshot_every_seconds")

# Most periods are multiples of ten seconds: jobs that start together share one read of the head.
JOBS: tuple[Job, ...] = (
    Job("open", "list today's daily and this week's weekly markets", "stock", open_markets, LIST),
    Job("witness", "record stock pauses and splits in the resolver", "stock", witness_stocks, SETTLE),
    Job("resolve", "settle or void stock markets past their close", "stock", resolve_markets, SETTLE),
    Job("deliver", "send payouts, refunds, residue and fees; finalize vintages", "stock", deliver, SETTLE),
    Job("drill", "keep short markets open", "stock", open_drills, _drills, local_only=True),
    Job("refund-drill", "list a short market that will be void", "stock", open_refund_drill, None),
    Job("prices", "move the simulated price feeds", "stock", move_prices, _prices, local_only=True),
    Job("agent-snapshot", "post observations to published feeds", "base", snapshot, SNAPSHOT, local_period=20.0),
    Job("agent-list", "list the standing series of agent markets", "base", list_series, LIST, local_period=10.0),
    Job("agent-rounds", "list the next up/down rounds", "base", list_rounds, LIST, local_period=10.0),
    Job("agent-record", "record the pool feed readings that markets need", "base", record_readings, SETTLE),
    Job("agent-caps", "recompute the caps that the feeds' pools support", "base", check_caps, CAPS_SECONDS),
    Job("agent-resolve", "settle or void agent markets", "base", resolve_agent_markets, SETTLE),
    Job("agent-pay", "pay winners and refunds; sweep fees", "base", pay, SETTLE),
    Job("agent-credit", "book payments sent directly to the token", "base", credit, 20.0),
    Job("agent-canary", "quote and simulate a trade", "base", canary, _canary, local_period=60.0, reads_chain=False),
    Job("tidy", "delete old transactions, attempts and requests", "stock", tidy, TIDY_SECONDS, reads_chain=False),
    Job("agent-tidy", "delete old Base rows and price locks", "base", tidy_agent, TIDY_SECONDS, reads_chain=False),
    Job("cup-markets", "open and settle paper markets", "base", follow_markets, 5.0, reads_chain=False),
    Job("cup-roulette", "finish a roulette round, or open the next", "base", spin, 1.0, reads_chain=False),
)

BY_NAME = {job.name: job for job in JOBS}


class Runner:
    """Runs the jobs of one keeper, at most one run of each at a time in this process."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._heads: dict[ChainName, tuple[float, Block]] = {}
        self._reading_head: dict[ChainName, asyncio.Lock] = defaultdict(asyncio.Lock)

    def unavailable_reason(self, job: Job) -> str | None:
        """Return why the configuration does not allow this job, or None if it does."""
        chain = self.keeper.chains.get(job.chain)
        if chain is None:
            return f"no RPC URL is configured for the {job.chain} chain"
        if not chain.deployment.is_deployed:
            return f"nothing is deployed on {chain.deployment.network} yet"
        if job.local_only and not chain.is_local:
            return f"{chain.deployment.network} is not a local deployment"
        return None

    def period(self, job: Job) -> float | None:
        period = job.every(self.keeper.how) if callable(job.every) else job.every
        if period is None or self.unavailable_reason(job) is not None:
            return None
        is_local = self.keeper.chains[job.chain].is_local
        return min(period, job.local_period) if job.local_period is not None and is_local else period

    async def run(self, job: Job, *, dry_run: bool = False) -> RunReport:
        """Run a job once. Errors go into the report; only cancellation is raised."""
        async with self._busy[job.name]:
            report = RunReport(job.name, datetime.now(UTC))
            unavailable_reason = self.unavailable_reason(job)
            if unavailable_reason is not None:
                report.skip("everything", unavailable_reason)
            else:
                await self._work(job, report, dry_run)
            report.finished_at = datetime.now(UTC)
            self._measure(report, dry_run)
            if not dry_run:
                await self._write(report, self.period(job))
            return report

    async def _work(self, job: Job, report: RunReport, dry_run: bool) -> None:
        chain = self.keeper.chains[job.chain]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                index = await index_state(self.keeper.engine, chain.chain_id)
                now, number, late = (0, -1, None) if index is None else (index.time, index.number, None)
                if job.reads_chain:
                    head, regular = await self._head(chain), chain.deployment.blocks_are_regular
                    now, number = head.timestamp, head.number
                    late = why_head_is_late(now, time.time(), blocks_are_regular=regular)
                run = JobRun(self.keeper, chain, report, now, number, index, late, dry_run=dry_run)
                await job.work(run)
        except RpcError as error:
            report.errors.append(f"The {job.chain} node failed: {error.message}")
        except VpmError as error:
            report.errors.append(error.sentence())
        except TimeoutError:
            report.errors.append(f"The run timed out after {TIMEOUT_SECONDS:g} s.")
        except (psycopg.Error, SQLAlchemyError) as error:
            report.errors.append(f"The database failed: {' '.join(str(error).split())[:300]}")
        except Exception as error:
            report.errors.append(f"{type(error).__name__}: {error}")
            log.error("a job crashed", action="keeper.job_crashed", job=job.name, exc=error)

    async def _head(self, chain: KeeperChain) -> Block:
        """Return the chain's newest block, read at most HEAD_SECONDS ago. Jobs that start together share one read."""
        async with self._reading_head[chain.name]:
            read_at, head = self._heads.get(chain.name, (-math.inf, None))
            if head is None or time.monotonic() - read_at > HEAD_SECONDS:
                read_at, head = time.monotonic(), await chain.client.head()
                self._heads[chain.name] = read_at, head
            return head

    def _measure(self, report: RunReport, dry_run: bool) -> None:
        for error in report.errors:
            log.error(error, action="keeper.job_failed", job=report.job)
        if dry_run:
            return
        metrics.RUNS.labels(report.job, "ok" if report.ok else "errors").inc()
        if report.ok:
            metrics.record_success(report.job)

    async def _write(self, report: RunReport, period: float | None) -> None:
        """Store the job's last run for health checks and operators. If the database fails, only this record is lost."""
        acted = report.finished_at if report.actions else None
        try:
            async with self.keeper.pool.connection() as connection:
                await connection.execute(
                    "INSERT INTO keeper_run (job, started_at, finished_at, ok, acted_at, every_seconds, report) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (job) DO UPDATE SET "
                    "started_at = excluded.started_at, finished_at = excluded.finished_at, ok = excluded.ok, "
                    "report = excluded.report, every_seconds = excluded.every_seconds, "
                    "acted_at = coalesce(excluded.acted_at, keeper_run.acted_at)",
                    (report.job, report.started_at, report.finished_at, report.ok, acted, period, Jsonb(report.body())),
                )
        except (psycopg.Error, TimeoutError) as error:
            log.warning("failed to store a job run", action="keeper.run_not_written", job=report.job, why=error)


async def wait_for_hashes(report: RunReport, watch: IntentWatch, seconds: float) -> None:
    """Wait at most `seconds` until the submitted transactions have hashes, and add the hashes to the report."""
    deadline = asyncio.get_running_loop().time() + seconds

    async def one(position: int, intent_id: int) -> None:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        # If this fails, the report shows the state at submission.
        with contextlib.suppress(psycopg.Error, TimeoutError, LookupError):
            intent = await watch.wait(intent_id, HAS_HASH, timeout_seconds=left)
            report.update(position, str(intent.state), intent.tx_hash_hex)

    ids = enumerate(each.intent_id for each in report.actions)
    await asyncio.gather(*(one(position, intent_id) for position, intent_id in ids if intent_id is not None))

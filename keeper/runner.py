"""Running a job once: reads the clock and the index, runs, keeps faults in the report, and writes it down."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from datetime import UTC, datetime

import psycopg
from psycopg.types.json import Jsonb
from sqlalchemy.exc import SQLAlchemyError

from core.chain import RpcError
from core.chain.lateness import why_head_is_late
from core.errors import VpmError
from core.log import get_logger
from core.outbox import HAS_HASH, IntentWatch
from keeper import metrics
from keeper.chain import index_state
from keeper.report import RunReport
from keeper.run import JobRun, Keeper
from keeper.schedule import TIMEOUT_SECONDS, Job

log = get_logger(__name__)


class Runner:
    """The jobs of one keeper, at most one run of each at once in this process."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self._busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def unable(self, job: Job) -> str | None:
        """Why a job cannot run with this configuration, or None."""
        chain = self.keeper.chains.get(job.chain)
        if chain is None:
            return f"no RPC URL is configured for the {job.chain} chain"
        if not chain.deployment.is_deployed:
            return f"nothing is deployed on {chain.deployment.network} yet"
        if job.local_only and not chain.is_local:
            return f"{chain.deployment.network} is not a local deployment"
        return None

    async def run(self, job: Job, *, dry_run: bool = False) -> RunReport:
        """One run. Whatever goes wrong is in the report; only cancellation is raised."""
        async with self._busy[job.name]:
            report = RunReport(job.name, datetime.now(UTC))
            unable = self.unable(job)
            if unable is not None:
                report.skip("everything", unable)
            else:
                await self._work(job, report, dry_run)
            report.finished_at = datetime.now(UTC)
            self._measure(report, dry_run)
            if not dry_run:
                await self._write(report)
            return report

    async def _work(self, job: Job, report: RunReport, dry_run: bool) -> None:
        chain = self.keeper.chains[job.chain]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                head = await chain.client.head()
                regular = chain.deployment.blocks_are_regular
                run = JobRun(
                    keeper=self.keeper,
                    chain=chain,
                    report=report,
                    now=head.timestamp,
                    head=head.number,
                    head_late=why_head_is_late(head.timestamp, time.time(), blocks_are_regular=regular),
                    index=await index_state(self.keeper.engine, chain.chain_id),
                    dry_run=dry_run,
                )
                await job.work(run)
        except RpcError as error:
            report.errors.append(f"The {job.chain} node: {error.message}")
        except VpmError as error:
            report.errors.append(error.sentence())
        except TimeoutError:
            report.errors.append(f"It was given up after {TIMEOUT_SECONDS:g} s.")
        except (psycopg.Error, SQLAlchemyError) as error:
            report.errors.append(f"The database: {' '.join(str(error).split())[:300]}")
        except Exception as error:
            report.errors.append(f"{type(error).__name__}: {error}")
            log.error("a job crashed", action="keeper.job_crashed", job=job.name, exc=error)

    def _measure(self, report: RunReport, dry_run: bool) -> None:
        assert report.finished_at is not None
        for error in report.errors:
            log.error(error, action="keeper.job_failed", job=report.job)
        if dry_run:
            return
        metrics.RUNS.labels(report.job, "ok" if report.ok else "errors").inc()
        metrics.RUN_SECONDS.labels(report.job).observe((report.finished_at - report.started_at).total_seconds())
        if report.ok:
            metrics.ran_ok(report.job)

    async def _write(self, report: RunReport) -> None:
        """The last run of each job, for health and people; a database that is away costs this line only."""
        acted = report.finished_at if report.actions else None
        try:
            async with self.keeper.pool.connection() as connection:
                await connection.execute(
                    "INSERT INTO keeper_run (job, started_at, finished_at, ok, acted_at, report) "
                    "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (job) DO UPDATE SET started_at = excluded.started_at, "
                    "finished_at = excluded.finished_at, ok = excluded.ok, report = excluded.report, "
                    "acted_at = coalesce(excluded.acted_at, keeper_run.acted_at)",
                    (report.job, report.started_at, report.finished_at, report.ok, acted, Jsonb(report.body())),
                )
        except (psycopg.Error, TimeoutError) as error:
            log.warning("a run was not written down", action="keeper.run_not_written", job=report.job, why=error)


async def follow(report: RunReport, watch: IntentWatch, seconds: float) -> None:
    """Waits a little for what was asked to have hashes, for a person or a scheduler that reads the report."""
    deadline = asyncio.get_running_loop().time() + seconds

    async def one(position: int, intent_id: int) -> None:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        with contextlib.suppress(psycopg.Error, TimeoutError, LookupError):  # else the report says what was asked for
            intent = await watch.wait(intent_id, HAS_HASH, timeout_seconds=left)
            report.update(position, str(intent.state), intent.tx_hash_hex)

    asked = [(position, each.intent_id) for position, each in enumerate(report.actions) if each.intent_id is not None]
    await asyncio.gather(*(one(position, intent_id) for position, intent_id in asked))

"""GET /api/cron/{job}: asks the keeper, through the table `keeper_job`, to run a job once, and returns its report."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec
import psycopg
from aiohttp import web
from pydantic import BaseModel, Field, SecretStr

from api.caching import json_response
from api.operations import Body
from api.problems import Problem, not_found
from api.stock.bodies import HexHash, UnixSeconds
from core.db.engine import ConnectionPool
from core.errors import DatabaseError
from core.log import get_logger
from core.service import jobs

CronJob = Literal["open", "resolve", "deliver"]


class CronPath(BaseModel):
    job: Annotated[CronJob, Field(description="The keeper's job.")]


log = get_logger(__name__)
JOBS: tuple[CronJob, ...] = get_args(CronJob)
WAIT_SECONDS = 55.0
POLL_SECONDS = 0.25


class CronAction(Body):
    kind: str
    target: str
    status: str
    tx_hash: HexHash | None
    detail: str | None


class CronSkip(Body):
    target: str
    reason: str


class CronReport(Body):
    """What a keeper job did, skipped and failed to do. Running it again repeats nothing."""

    job: CronJob
    ok: bool
    started_at: UnixSeconds
    finished_at: UnixSeconds
    actions: list[CronAction]
    skipped: list[CronSkip]
    errors: list[str]


class Cron:
    """The endpoint that runs keeper jobs. Without a `secret` it refuses every request."""

    def __init__(self, secret: SecretStr | None, pool: ConnectionPool) -> None:
        self._secret = secret
        self._pool = pool

    async def run(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        job = request.match_info["job"]
        if job not in JOBS:
            raise not_found(f"There is no job {job[:32]!r}; the jobs are {', '.join(JOBS)}.")
        try:
            report = await self._report(job)
        except (psycopg.Error, DatabaseError, OSError) as error:
            log.warning("failed to request a job", action="cron.no_database", job=job, why=error)
            raise _no_keeper("The database is unavailable, so the keeper cannot be reached; try again.") from None
        return json_response(_in_seconds(report))

    def _authorize(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        secret = self._secret
        bearer = b"" if secret is None else b"Bearer " + secret.get_secret_value().encode()
        # Compared in constant time, even when there is no secret.
        if not hmac.compare_digest(given, bearer) or secret is None:
            raise Problem(
                401,
                "unauthorized",
                "Only the scheduler may run jobs: send Authorization: Bearer with the cron secret.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _report(self, job: str) -> Mapping[str, Any]:
        async with self._pool.connection() as connection:
            job_id = await jobs.request(connection, job)
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            async with self._pool.connection() as connection:
                asked = await jobs.read(connection, job_id)
            if asked is not None and asked.report is not None:
                return asked.report
            if asyncio.get_running_loop().time() >= deadline:
                started = asked is not None and asked.is_started
                raise _no_keeper(
                    "The keeper is still running the job; try again later."
                    if started
                    else "No keeper took the job; check that one is running."
                )
            await asyncio.sleep(POLL_SECONDS)


def _in_seconds(report: Mapping[str, Any]) -> CronReport:
    """Convert the report's times to Unix seconds."""
    times = {name: int(datetime.fromisoformat(report[name]).timestamp()) for name in ("startedAt", "finishedAt")}
    return msgspec.convert({**report, **times}, CronReport)


def _no_keeper(message: str) -> Problem:
    return Problem(503, "keeper_unavailable", message, retry_after=30)

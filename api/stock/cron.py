"""GET /api/cron/[job]: asks the keeper for one run of a job and hands back its report.

The keeper is another process; request and report travel through `keeper_job`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import msgspec
import psycopg
from aiohttp import web
from pydantic import SecretStr

from api.http.application import json_response
from api.http.problem import Problem, not_found
from api.stock.bodies.operating import CronJob, CronReport
from core.db.channels import KEEPER_JOB_DONE, Resync, listen
from core.db.engine import ConnectionPool
from core.errors import DatabaseError
from core.log import get_logger
from core.service import jobs

log = get_logger(__name__)

JOBS: tuple[CronJob, ...] = get_args(CronJob)
WAIT_SECONDS = 55.0
_LOOK_AGAIN_SECONDS = 1.0


class Cron:
    """The keeper's jobs on demand. `secret` None refuses everybody. Run `listen` beside it; without it reports are
    found by asking again."""

    def __init__(self, secret: SecretStr | None, url: str, pool: ConnectionPool) -> None:
        self._secret = secret
        self._url = url
        self._pool = pool
        self._waiting: dict[int, set[asyncio.Event]] = defaultdict(set)

    async def run(self, request: web.Request) -> web.StreamResponse:
        self._authorize(request)
        job = request.match_info["job"]
        if job not in JOBS:
            raise not_found(f"There is no job {job[:32]!r}; the jobs are {', '.join(JOBS)}.")
        try:
            report = await self._report(job)
        except (psycopg.Error, DatabaseError, OSError) as error:
            log.warning("a job could not be asked for", action="cron.no_database", job=job, why=error)
            raise _no_keeper("The database is away, so the keeper cannot be asked.") from None
        return json_response(_in_seconds(report))

    async def listen(self) -> None:
        async with contextlib.aclosing(listen(self._url, KEEPER_JOB_DONE)) as signals:
            async for done in signals:
                for job_id in list(self._waiting) if isinstance(done, Resync) else [done]:
                    for event in self._waiting.get(job_id, ()):
                        event.set()

    def _authorize(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        secret = self._secret
        bearer = b"" if secret is None else b"Bearer " + secret.get_secret_value().encode()
        # Compared in constant time, also when there is no secret to compare with.
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
        done = asyncio.Event()
        self._waiting[job_id].add(done)
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        try:
            while True:
                done.clear()
                async with self._pool.connection() as connection:
                    asked = await jobs.read(connection, job_id)
                if asked is not None and asked.report is not None:
                    return asked.report
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    started = asked is not None and asked.is_started
                    raise _no_keeper(
                        "The keeper is still at it; ask again later."
                        if started
                        else "No keeper took the job; is one running?"
                    )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _LOOK_AGAIN_SECONDS)):
                        await done.wait()
        finally:
            self._waiting[job_id].discard(done)
            if not self._waiting[job_id]:
                del self._waiting[job_id]


def _in_seconds(report: Mapping[str, Any]) -> CronReport:
    """The keeper writes its times as text; on this surface times are Unix seconds."""
    times = {name: int(datetime.fromisoformat(report[name]).timestamp()) for name in ("startedAt", "finishedAt")}
    return msgspec.convert({**report, **times}, CronReport)


def _no_keeper(message: str) -> Problem:
    return Problem(503, "keeper_unavailable", message, headers={"Retry-After": "30"})

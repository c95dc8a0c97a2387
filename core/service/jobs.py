"""Requested keeper jobs: `request` and `read` for the API, `claim` and `finish` for the keeper.

Jobs are idempotent, so a job whose keeper died is claimed again after `ABANDONED_AFTER_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from core.db.engine import Connection

ABANDONED_AFTER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class JobRequest:
    id: int
    job: str
    is_started: bool
    report: Mapping[str, Any] | None  # None until the job has run


async def request(connection: Connection, job: str) -> int:
    """Request a run of `job`, or join a waiting request. Return the request's id."""
    job_id = await connection.fetch_value(
        "INSERT INTO keeper_job (job) VALUES (%s) ON CONFLICT (job) WHERE started_at IS NULL "
        "DO UPDATE SET job = excluded.job RETURNING id",
        (job,),
    )
    return int(job_id)


async def read(connection: Connection, job_id: int) -> JobRequest | None:
    row = await connection.fetch_one(
        "SELECT id, job, started_at IS NOT NULL, report FROM keeper_job WHERE id = %s", (job_id,)
    )
    return None if row is None else JobRequest(*row)


async def claim(connection: Connection, runner: str) -> JobRequest | None:
    """Claim the oldest waiting or abandoned job, if any."""
    row = await connection.fetch_one(
        "UPDATE keeper_job SET started_at = now(), runner = %s WHERE id = (SELECT id FROM keeper_job "
        "WHERE finished_at IS NULL AND (started_at IS NULL OR started_at < now() - make_interval(secs => %s)) "
        "ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, job, true, report",
        (runner, ABANDONED_AFTER_SECONDS),
    )
    return None if row is None else JobRequest(*row)


async def finish(connection: Connection, job_id: int, report: Mapping[str, Any]) -> None:
    await connection.execute(
        "UPDATE keeper_job SET finished_at = now(), report = %s WHERE id = %s AND finished_at IS NULL",
        (Jsonb(dict(report)), job_id),
    )


async def forget(connection: Connection, *, days: int) -> int:
    """Delete requests that finished more than `days` days ago, and return how many were deleted."""
    cursor = await connection.execute(
        "DELETE FROM keeper_job WHERE finished_at < now() - make_interval(days => %s)", (days,)
    )
    return cursor.rowcount

"""Heartbeats: each daemon process writes a row every few seconds, which shows that the process and the database work. A
process also terminates the sessions of hanging processes that block others.

A process that is suspended, or whose machine is gone, keeps its locks until its session ends. PostgreSQL ends sessions
that are idle in a transaction. It does not end sessions in the middle of a COPY or a pipeline, or sessions whose client
reads no results. Healthy processes terminate those sessions (docs/decisions/0018).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
from prometheus_client import Gauge
from psycopg.types.json import Jsonb

from core.db.engine import IDLE_IN_TRANSACTION_MS, Connection, ConnectionPool
from core.log import get_logger

log = get_logger(__name__)

BEAT_SECONDS = 5.0
TAKEN_SECONDS = 5.0  # normally milliseconds
LEAVING_SECONDS = 1.0
FORGET_AFTER_SECONDS = 86_400  # each heartbeat deletes older rows, those of processes that are long gone
SILENT = Gauge("vpm_database_silent", "1 if this process's last heartbeat failed.")

INSTANCE = f"{socket.gethostname()}:{os.getpid()}"


async def beat_forever(
    pool: ConnectionPool,
    daemon: str,
    *,
    is_leader: Callable[[], bool] = lambda: False,
    detail: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write this process's row and terminate silent sessions, until cancelled. If the database is down, log a warning.

    At the end, mark the process as no longer leading. The row is kept for a day, so a restart does not look like a
    missing daemon.
    """
    started_at = datetime.now(UTC)
    try:
        while True:
            try:
                async with asyncio.timeout(TAKEN_SECONDS), pool.connection() as connection:
                    await connection.execute(
                        "INSERT INTO daemon_heartbeat (daemon, instance, pid, is_leader, started_at, seen_at, detail) "
                        "VALUES (%s, %s, %s, %s, %s, now(), %s) ON CONFLICT (daemon, instance) DO UPDATE SET "
                        "pid = excluded.pid, is_leader = excluded.is_leader, started_at = excluded.started_at, "
                        "seen_at = excluded.seen_at, detail = excluded.detail",
                        (daemon, INSTANCE, os.getpid(), is_leader(), started_at, Jsonb(dict(detail()))),
                    )
                    await connection.execute(
                        "DELETE FROM daemon_heartbeat WHERE seen_at < now() - make_interval(secs => %s)",
                        (FORGET_AFTER_SECONDS,),
                    )
                SILENT.set(0)
                async with pool.connection() as connection:
                    await end_silent_sessions(connection)
            except (psycopg.Error, TimeoutError) as error:
                SILENT.set(1)
                log.warning("failed to write the heartbeat", action="heartbeat.failed", daemon=daemon, why=error)
            await asyncio.sleep(BEAT_SECONDS)
    finally:
        with contextlib.suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS), pool.connection() as connection:
                await connection.execute(
                    "UPDATE daemon_heartbeat SET is_leader = false WHERE daemon = %s AND instance = %s",
                    (daemon, INSTANCE),
                )


async def seconds_since_heartbeat(connection: Connection, daemon: str) -> float | None:
    """Return the seconds since any process of this daemon wrote a heartbeat, or None if none is stored."""
    silence: float | None = await connection.fetch_value(
        "SELECT extract(epoch FROM now() - max(seen_at))::float8 FROM daemon_heartbeat WHERE daemon = %s", (daemon,)
    )
    return silence


# Only sessions of our daemons, and only if they block another, so that no operator's session is terminated.
_END = """
SELECT silent.*, pg_terminate_backend(silent.pid) FROM (
    SELECT DISTINCT b.pid, b.application_name, extract(epoch FROM clock_timestamp() - b.state_change)::int
    FROM pg_locks w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS blocking (pid)
    JOIN pg_stat_activity b ON b.pid = blocking.pid
    WHERE NOT w.granted AND b.datname = current_database() AND b.usename = current_user
    AND b.application_name LIKE 'vpm%%' AND b.wait_event_type = 'Client'
    AND b.state_change < clock_timestamp() - make_interval(secs => %s)
) AS silent
"""


async def end_silent_sessions(connection: Connection, after_seconds: float = IDLE_IN_TRANSACTION_MS / 1000) -> int:
    """Terminate our sessions that block others and whose client has been silent for `after_seconds`. Return how many
    were terminated."""
    ended = await connection.fetch_all(_END, (after_seconds,))
    for pid, application, seconds, _ in ended:
        log.warning(
            "terminated a silent session that blocked others",
            action="database.session_ended",
            application=application,
            pid=pid,
            seconds=seconds,
        )
    return len(ended)

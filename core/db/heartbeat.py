"""Signs of life: each daemon process writes a row every few seconds, so that any other can tell what runs. And ends the
sessions of processes that give none, where they hold up others.

The same row shows whether the database works: one that hangs takes connections and answers none.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from core.db.engine import ConnectionPool
from core.db.silent import end_silent_sessions
from core.log import get_logger
from core.metrics import gauge

log = get_logger(__name__)

BEAT_SECONDS = 5.0
# A heartbeat takes milliseconds.
TAKEN_SECONDS = 5.0
SILENT = gauge("vpm_database_silent", "Processes whose last heartbeat the database did not take")
# Rows of processes long gone are swept by whoever beats.
FORGET_AFTER_SECONDS = 86_400

INSTANCE = f"{socket.gethostname()}:{os.getpid()}"


async def beat_forever(
    pool: ConnectionPool,
    daemon: str,
    *,
    is_leader: Callable[[], bool] = lambda: False,
    detail: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Writes this process's row, and looks for silent sessions, until cancelled; a database that is away is a warning,
    not a crash."""
    started_at = datetime.now(UTC)
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
            log.warning("no sign of life could be written", action="heartbeat.failed", daemon=daemon, why=error)
        await asyncio.sleep(BEAT_SECONDS)


async def silence_of(connection: psycopg.AsyncConnection[Any], daemon: str) -> float | None:
    """Seconds since any process of this daemon gave a sign of life; None when there is none."""
    asked = await connection.execute(
        "SELECT extract(epoch FROM now() - max(seen_at))::float8 FROM daemon_heartbeat WHERE daemon = %s", (daemon,)
    )
    row = await asked.fetchone()
    return None if row is None else row[0]

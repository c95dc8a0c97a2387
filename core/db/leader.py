"""Leader election by a PostgreSQL advisory lock on a dedicated connection.

The lock lives as long as the connection. When the process dies, the server drops the connection, and a standby that
polls every second takes over. When only the connection is lost, the leader notices within `CHECK_SECONDS` plus
`ANSWER_SECONDS` and stops its work. When the process hangs, the server ends its session after `HUNG_SECONDS`.

Two processes may both act as leader for a moment. Therefore each write must also be guarded by a condition on what the
leader has read, such as a checkpoint's old value or a unique key.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import Awaitable, Callable

import psycopg
from prometheus_client import Gauge

from core.db.engine import Connection, connect
from core.errors import DatabaseError, DatabaseRefused
from core.log import get_logger
from core.service.cancelling import cancel_and_wait

log = get_logger(__name__)

CHECK_SECONDS = 1.5
ANSWER_SECONDS = 3.0
STANDBY_POLL_SECONDS = 1.0
HUNG_SECONDS = 30  # longer than the work ever delays a check, even on a busy machine

LEADING = Gauge("vpm_leader", "1 while this process leads this role", ("role",))

_SESSION = (
    # The server notices a vanished client within 8 s: 4 s idle, then 2 probes 2 s apart.
    "SET tcp_keepalives_idle = 4",
    "SET tcp_keepalives_interval = 2",
    "SET tcp_keepalives_count = 2",
    f"SET idle_session_timeout = '{HUNG_SECONDS}s'",
)


class Leadership:
    """A candidate for one role, such as "indexer:base". During `run`, it competes with the other processes of the same
    role on the same database."""

    def __init__(self, url: str, role: str) -> None:
        self.role = role
        self.is_leader = False
        self._url = url
        self._key = lock_key(role)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` while this process leads: cancel it when leadership is lost, and start it again when leadership is
        regained. When `work` ends, release the lock, then return or raise its exception."""
        LEADING.labels(self.role).set(0)  # before the first election too, since a missing metric raises no alarm
        while True:
            connection = await self._acquire()
            try:
                if await self._lead(connection, work):
                    return
            finally:
                self._leading(False)
                with contextlib.suppress(psycopg.Error, OSError):
                    await connection.close()

    async def _acquire(self) -> Connection:
        standby_logged = False
        connection: Connection | None = None
        try:
            while True:
                try:
                    if connection is None or connection.closed:
                        connection = await connect(self._url, application_name=f"vpm-leader {self.role}"[:63])
                        for statement in _SESSION:
                            await connection.execute(statement.encode())
                    if await _ask(connection, "SELECT pg_try_advisory_lock(%s)", self._key):
                        taken, connection = connection, None
                        return taken
                except DatabaseRefused:
                    raise
                except (DatabaseError, psycopg.Error, TimeoutError) as error:
                    log.warning("the database is unavailable", action="leader.no_database", role=self.role, why=error)
                    if connection is not None:
                        await connection.close()
                        connection = None
                else:
                    if not standby_logged:
                        log.info("another process leads; standing by", action="leader.standby", role=self.role)
                        standby_logged = True
                await asyncio.sleep(STANDBY_POLL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
        finally:
            if connection is not None:
                await connection.close()

    async def _lead(self, connection: Connection, work: Callable[[], Awaitable[None]]) -> bool:
        """Run the work. Return True when the work ends, or False when leadership is lost."""
        self._leading(True)
        working = asyncio.ensure_future(work())
        try:
            while True:
                done, _ = await asyncio.wait((working,), timeout=CHECK_SECONDS)
                if done:
                    working.result()
                    return True
                try:
                    leads = await _ask(connection, _STILL_HELD, self._key, self._key)
                except (psycopg.Error, TimeoutError, OSError) as error:
                    leads, why = False, str(error)
                else:
                    why = "the server no longer holds this process's lock"
                if not leads:
                    log.warning("lost leadership", action="leader.lost", role=self.role, why=why)
                    return False
        finally:
            if not working.done():
                await cancel_and_wait(working)

    def _leading(self, leads: bool) -> None:
        if leads and not self.is_leader:
            log.info("took leadership", action="leader.taken", role=self.role)
        self.is_leader = leads
        LEADING.labels(self.role).set(1 if leads else 0)


_STILL_HELD = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
    " AND classid = ((%s::bigint >> 32) & 4294967295)::oid AND objid = (%s::bigint & 4294967295)::oid)"
)


def lock_key(role: str) -> int:
    """Return the 64-bit advisory lock key of a role."""
    return int.from_bytes(hashlib.sha256(f"vpm leader {role}".encode()).digest()[:8], signed=True)


async def _ask(connection: Connection, query: str, *values: int) -> bool:
    async with asyncio.timeout(ANSWER_SECONDS):
        return bool(await connection.fetch_value(query.encode(), values))

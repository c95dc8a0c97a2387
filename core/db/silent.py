"""Ends sessions that hold up others although their process says nothing any more.

A process that is stopped, or whose machine is gone, keeps what it has locked until its session ends. PostgreSQL ends a
session that is idle in a transaction; not one that is in the middle of a COPY or of a pipeline, or whose answers nobody
reads. Those are ended here, by whoever lives (docs/decisions/0018).
"""

from __future__ import annotations

from core.db.engine import IDLE_IN_TRANSACTION_MS, Connection
from core.log import get_logger

log = get_logger(__name__)

# Only for whom somebody waits, and only sessions of ours: what an operator types by hand is the operator's.
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
    """Ends each session whose process has said nothing for so long and has what another waits for; returns how many."""
    ended = await (await connection.execute(_END, (after_seconds,))).fetchall()
    for pid, application, seconds, _ in ended:
        log.warning(
            "ended a session whose process says nothing, and that held up others",
            action="database.session_ended",
            application=application,
            pid=pid,
            seconds=seconds,
        )
    return len(ended)

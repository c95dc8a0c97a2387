"""What the database knows of the daemons, read in one transaction. Ages are seconds by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from core.db.engine import conninfo
from core.errors import DatabaseUnreachable, SchemaOutdated

CONNECT_SECONDS = 5
STATEMENT_MS = 10_000

FactRow = dict[str, Any]

_DAEMONS = """
SELECT daemon, instance, is_leader, detail, extract(epoch FROM now() - seen_at)::float AS silent_seconds,
    extract(epoch FROM now() - started_at)::float AS up_seconds
FROM daemon_heartbeat WHERE seen_at > now() - interval '10 minutes' ORDER BY daemon, started_at
"""
_CHAINS = """
SELECT chain_id, name, state, problem, number AS block, head_number AS head, finalized_number AS finalized,
    greatest(coalesce(head_number, number) - number, 0) AS lag_blocks,
    extract(epoch FROM now())::bigint - block_time AS block_age_seconds,
    extract(epoch FROM now() - head_seen_at)::float AS head_silent_seconds,
    (SELECT count(*) FROM chain_reorg r WHERE r.chain_id = c.chain_id AND r.at > now() - interval '1 day')
        AS reorgs_today
FROM chain_cursor c ORDER BY chain_id
"""
_LANES = """
SELECT l.chain_id, '0x' || encode(l.address, 'hex') AS address, l.groups, l.status, l.status_detail AS detail,
    l.holder_name AS holder, coalesce(l.lease_until > now(), false) AS held, l.balance_wei::text AS balance_wei,
    l.next_nonce, (SELECT count(*) FROM outbox_intent i WHERE i.lane_id = l.id AND i.state IN ('signed', 'sent'))
        AS in_flight
FROM outbox_lane l ORDER BY l.chain_id, l.id
"""
_QUEUES = """
SELECT chain_id, lane_group, kind, state, count(*) AS count,
    extract(epoch FROM now() - min(state_at))::float AS oldest_seconds
FROM outbox_intent WHERE state IN ('queued', 'signed', 'sent') GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""
_ENDED = """
SELECT chain_id, kind, coalesce(outcome, 'refused') AS outcome, count(*) AS count, max(reason) AS last_reason
FROM outbox_intent WHERE state_at > now() - interval '1 hour' AND state IN ('mined', 'final', 'failed', 'replaced')
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_JOBS = """
SELECT job, ok, extract(epoch FROM now() - finished_at)::float AS age_seconds,
    extract(epoch FROM now() - acted_at)::float AS acted_seconds,
    extract(epoch FROM finished_at - started_at)::float AS took_seconds,
    report -> 'errors' AS errors
FROM keeper_run ORDER BY job
"""
_ASKED = """
SELECT job, extract(epoch FROM now() - requested_at)::float AS waiting_seconds, started_at IS NOT NULL AS started
FROM keeper_job WHERE finished_at IS NULL ORDER BY id LIMIT 20
"""
_AUDITS = """
SELECT DISTINCT ON (chain_id) chain_id, block_number AS block, compared, mismatches,
    extract(epoch FROM now() - at)::float AS age_seconds
FROM chain_audit ORDER BY chain_id, id DESC
"""
_SWITCHES = """
SELECT name, is_on, reason, changed_by, extract(epoch FROM now() - changed_at)::float AS age_seconds
FROM operator_switch WHERE is_on ORDER BY name
"""
_UNTOLD = """
SELECT i.chain_id, i.kind, u.intent_id, u.problem FROM outbox_untold u JOIN outbox_intent i ON i.id = u.intent_id
WHERE u.tries >= 10 ORDER BY u.intent_id LIMIT 20
"""
_WEBHOOKS = """
SELECT status, count(*) AS count, count(*) FILTER (WHERE failing_since IS NOT NULL) AS failing
FROM agent_webhook GROUP BY 1 ORDER BY 1
"""
_DATABASE = """
SELECT current_setting('server_version') AS version, pg_database_size(current_database())::bigint AS bytes,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
    current_setting('max_connections')::int AS most_connections
"""

# Section, what it reads, and the table without which it is left empty (a schema of before it).
_SECTIONS: tuple[tuple[str, LiteralString, str], ...] = (
    ("daemons", _DAEMONS, "daemon_heartbeat"),
    ("chains", _CHAINS, "chain_cursor"),
    ("lanes", _LANES, "outbox_lane"),
    ("queues", _QUEUES, "outbox_intent"),
    ("ended", _ENDED, "outbox_intent"),
    ("jobs", _JOBS, "keeper_run"),
    ("asked", _ASKED, "keeper_job"),
    ("audits", _AUDITS, "chain_audit"),
    ("switches", _SWITCHES, "operator_switch"),
    ("untold", _UNTOLD, "outbox_untold"),
    ("webhooks", _WEBHOOKS, "agent_webhook"),
    ("database", _DATABASE, "daemon_heartbeat"),
)


@dataclass(frozen=True)
class StatusFacts:
    """What a status is told from: rows by section; `metrics` are the samples scraped, by endpoint."""

    sections: Mapping[str, list[FactRow]]
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __getitem__(self, section: str) -> list[FactRow]:
        return self.sections.get(section, [])


def read(url: str) -> dict[str, list[FactRow]]:
    """DatabaseUnreachable or SchemaOutdated with one sentence when there is nothing to be read."""
    try:
        with psycopg.connect(conninfo(url), connect_timeout=CONNECT_SECONDS, row_factory=dict_row) as connection:
            connection.execute(f"SET statement_timeout = {STATEMENT_MS}")
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
            tables = {row["tablename"] for row in rows}
            if "daemon_heartbeat" not in tables:
                raise SchemaOutdated("The database holds none of our tables.")
            return {
                name: connection.execute(query).fetchall() if table in tables else []
                for name, query, table in _SECTIONS
            }
    except psycopg.OperationalError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].removeprefix("connection failed: ") if lines else "no answer"
        raise DatabaseUnreachable(
            f"The database does not answer: {reason}.",
            hint="While it is away bets are refused and nothing is lost; docs/operate.md, 'PostgreSQL is away'.",
        ) from None

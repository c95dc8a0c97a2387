"""`vpm status`: see the manual."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from core.config import setting
from core.db.engine import conninfo
from core.errors import DatabaseUnreachable, SchemaOutdated, VpmError
from core.outbox import is_gone

Facts = Mapping[str, list[dict[str, Any]]]

DAEMONS = ("indexer", "relayer", "keeper", "api")
JOB_SECONDS, MISSED_PERIODS = 900, 3  # a job is late when both have passed
# Ages are whole seconds by the database's clock.
SECTIONS: dict[str, LiteralString] = {
    "daemons": "SELECT daemon, instance, is_leader, detail, extract(epoch FROM now() - seen_at)::int AS silent_seconds"
    " FROM daemon_heartbeat WHERE seen_at > now() - interval '10 minutes' ORDER BY daemon, started_at",
    "chains": "SELECT chain_id, name, state, problem, number AS block, finalized_number AS finalized,"
    " greatest(coalesce(head_number, number) - number, 0) AS lag_blocks,"
    " extract(epoch FROM now() - head_seen_at)::int AS head_silent_seconds FROM chain_cursor ORDER BY chain_id",
    "lanes": "SELECT l.chain_id, '0x' || encode(l.address, 'hex') AS address, l.groups, l.status,"
    " l.status_detail AS detail, l.holder_name AS holder, coalesce(l.lease_until > now(), false) AS held,"
    " l.balance_wei::text AS balance_wei, l.next_nonce, (SELECT count(*) FROM outbox_intent i"
    " WHERE i.lane_id = l.id AND i.state IN ('signed', 'sent')) AS in_flight FROM outbox_lane l ORDER BY l.id",
    "queues": "SELECT chain_id, lane_group, kind, state, count(*) AS count,"
    " extract(epoch FROM now() - min(state_at))::int AS oldest_seconds FROM outbox_intent"
    " WHERE state IN ('queued', 'signed', 'sent') GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
    "last_hour": "SELECT chain_id, kind, coalesce(outcome, 'refused') AS outcome, count(*) AS count FROM outbox_intent"
    " WHERE state_at > now() - interval '1 hour' AND state IN ('mined', 'final', 'failed', 'replaced')"
    " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    "jobs": "SELECT job, ok, every_seconds, extract(epoch FROM now() - finished_at)::int AS age_seconds,"
    " report -> 'errors' AS errors FROM keeper_run ORDER BY job",
    "requested": "SELECT job, extract(epoch FROM now() - requested_at)::int AS waiting_seconds FROM keeper_job"
    " WHERE finished_at IS NULL ORDER BY id LIMIT 20",
    "audits": "SELECT DISTINCT ON (chain_id) chain_id, block_number AS block, compared, mismatches,"
    " extract(epoch FROM now() - at)::int AS age_seconds FROM chain_audit ORDER BY chain_id, id DESC",
    "switches": "SELECT name, reason, changed_by, changed_at FROM operator_switch WHERE is_on ORDER BY name",
    "unconfirmed": "SELECT i.chain_id, i.kind, u.intent_id, u.problem FROM outbox_pending_notice u"
    " JOIN outbox_intent i ON i.id = u.intent_id WHERE u.tries >= 10 ORDER BY u.intent_id LIMIT 20",
    "database": "SELECT pg_database_size(current_database()) / 1000000 AS megabytes, (SELECT count(*)"
    " FROM pg_stat_activity WHERE datname = current_database()) AS connections,"
    " current_setting('max_connections')::int AS most_connections",
}


def read(url: str | None) -> Facts:
    """Read all sections in one database transaction. Raise VpmError if the database cannot be read."""
    if not url:
        raise VpmError("DATABASE_URL is not set.")
    try:
        with psycopg.connect(conninfo(url), connect_timeout=5, row_factory=dict_row) as connection:
            connection.execute("SET statement_timeout = 10000")
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return {name: connection.execute(query).fetchall() for name, query in SECTIONS.items()}
    except psycopg.errors.UndefinedTable:
        raise SchemaOutdated("The database lacks tables of this version.") from None
    except psycopg.OperationalError as error:
        reason = next(iter(str(error).split("\n")), "").strip().removeprefix("connection failed: ") or "no response"
        raise DatabaseUnreachable(
            f"The database does not respond: {reason}.",
            hint="Until it is back, bets are refused, but nothing is lost; see docs/operate.md, 'PostgreSQL is away'.",
        ) from None


def concerns(facts: Facts) -> Iterator[str]:
    """Yield a sentence for each problem that needs a person's attention. The alert rules wait longer before they report
    a problem."""
    for name in DAEMONS:
        alive = [row for row in facts["daemons"] if row["daemon"] == name and row["silent_seconds"] < 30]
        if not alive:
            yield f"no {name} has reported for 30 s"
        elif name in ("indexer", "keeper") and not any(row["is_leader"] for row in alive):
            yield f"{len(alive)} {name} processes are on standby, but none is the leader"
    for row in facts["chains"]:
        if row["state"] == "halted":
            yield f"chain {row['name']} is halted and its data is stale: {row['problem']}"
        elif row["lag_blocks"] > 60:
            yield f"chain {row['name']} is {row['lag_blocks']:,} blocks behind its head ({row['state']})"
        if (row["head_silent_seconds"] or 0) > 60 and row["state"] != "backfill":  # backfill does not ask for the head
            yield f"no node of chain {row['name']} has responded for {row['head_silent_seconds']} s"
    for row in facts["lanes"]:
        lane = f"lane {row['address'][:10]} on {row['chain_id']} ({'+'.join(row['groups'])})"
        if is_gone(row["status"], is_leased=row["held"], in_flight=row["in_flight"]):
            continue  # its key was removed
        if row["status"] not in ("ready", "full", "starting"):
            yield f"{lane} is not signing: {', '.join(filter(None, (row['status'], row['detail'])))}"
        elif not row["held"]:
            yield f"no relayer holds {lane}"
    for row in facts["queues"]:
        if row["oldest_seconds"] > (120 if row["state"] == "queued" else 300):
            oldest = f"the oldest for {row['oldest_seconds']} s"
            yield f"{row['count']} {row['kind']} on {row['chain_id']} are {row['state']}, {oldest}"
    for row in facts["unconfirmed"]:
        yield f"wallets were not notified of {row['kind']} {row['intent_id']} on {row['chain_id']}: {row['problem']}"
    for row in facts["jobs"]:
        if not row["ok"]:
            yield f"job {row['job']} failed {row['age_seconds']} s ago: {str((row['errors'] or ['?'])[0])[:160]}"
        elif row["every_seconds"] and row["age_seconds"] > max(JOB_SECONDS, MISSED_PERIODS * row["every_seconds"]):
            yield f"job {row['job']} has not run for {row['age_seconds']} s"
    for row in facts["requested"]:
        if row["waiting_seconds"] > 120:
            yield f"job {row['job']} was requested {row['waiting_seconds']} s ago and has not finished"
    for row in facts["audits"]:
        if row["mismatches"]:
            yield f"the last audit of chain {row['chain_id']} found {row['mismatches']} differences"
        if row["age_seconds"] > 172_800:
            yield f"chain {row['chain_id']} was last audited {row['age_seconds'] // 3_600} hours ago"
    for row in facts["switches"]:
        who = f"set by {row['changed_by']}: {row['reason']}"
        yield f"the switch {row['name']} has been on since {row['changed_at']}, {who}"
    for row in facts["database"]:
        if row["connections"] > 0.9 * row["most_connections"]:
            yield f"{row['connections']} of {row['most_connections']} database connections are in use"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="vpm status", allow_abbrev=False, add_help=False)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    try:
        facts = read(setting("DATABASE_URL"))
    except VpmError as error:
        print(f"vpm status: {error.sentence()}", file=sys.stderr)
        return 2
    worries = list(concerns(facts))
    if options.json:
        print(json.dumps({"ok": not worries, "concerns": worries, **facts}, indent=2, default=str))
        return 1 if worries else 0
    for section, rows in facts.items():
        for row in rows:
            print(f"{section:<12} " + "  ".join(f"{name} {value}" for name, value in row.items() if value is not None))
    many = f"{len(worries)} problems need attention (docs/operate.md has the steps):"
    print("\n  - ".join([many, *worries]) if worries else "nothing needs attention")
    return 1 if worries else 0


if __name__ == "__main__":
    sys.exit(main())

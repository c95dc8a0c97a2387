"""What an operator should look at, as sentences; pure. The alert rules have bounds of their own, and wait longer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from core.outbox.lanes import is_gone
from scripts._status.facts import StatusFacts

DAEMONS = ("indexer", "relayer", "keeper", "api")
LED = ("indexer", "keeper")
SILENT_SECONDS = 30.0
LAG_BLOCKS = 60
HEAD_SILENT_SECONDS = 60.0
QUEUED_SECONDS = 120.0
FLIGHT_SECONDS = 300.0
JOB_SECONDS = 900.0
HOURLY_JOBS, HOURLY_JOB_SECONDS = ("tidy", "agent-tidy"), 10_800.0
ASKED_SECONDS = 120.0
AUDIT_SECONDS = 172_800.0
WELL = ("ready", "full", "starting")


def concerns(facts: StatusFacts) -> list[str]:
    """Empty when nothing needs a person."""
    parts = (_daemons, _chains, _lanes, _queues, _untold, _jobs, _rest)
    sentences = [each for part in parts for each in part(facts)]
    for name, seen in facts.metrics.items():
        if not seen["up"]:
            sentences.append(f"{name} does not answer on its metrics port: {seen['why']}")
            continue
        sentences += [f"{name}: {check['name']} does not hold: {check['detail']}" for check in seen["failing"]]
    return sentences


def _daemons(facts: StatusFacts) -> Iterator[str]:
    for name in DAEMONS:
        alive = [row for row in facts["daemons"] if row["daemon"] == name and row["silent_seconds"] < SILENT_SECONDS]
        if not alive:
            yield f"no {name} has shown a sign of life for {SILENT_SECONDS:.0f} s"
        elif name in LED and not any(row["is_leader"] for row in alive):
            yield f"{len(alive)} of {name} stand by and none leads"


def _chains(facts: StatusFacts) -> Iterator[str]:
    for row in facts["chains"]:
        of = f"chain {row['name']}"
        if row["state"] == "halted":
            yield f"{of} is halted and served stale: {row['problem']}"
        elif row["lag_blocks"] > LAG_BLOCKS:
            yield f"{of} is {row['lag_blocks']:,} blocks behind its head ({row['state']})"
        # While history is read the head is not asked for.
        if (row["head_silent_seconds"] or 0) > HEAD_SILENT_SECONDS and row["state"] != "backfill":
            yield f"no node of {of} has answered for {ago(row['head_silent_seconds'])}"


def _lanes(facts: StatusFacts) -> Iterator[str]:
    for row in facts["lanes"]:
        of = f"lane {row['address'][:10]} on {row['chain_id']} ({'+'.join(row['groups'])})"
        if is_gone(row["status"], is_leased=row["held"], in_flight=row["in_flight"]):
            continue  # its key was taken away; where only the relayers are gone, that is said of them
        if row["status"] not in WELL:
            yield f"{of} signs nothing: {row['status']}{', ' + row['detail'] if row['detail'] else ''}"
        elif not row["held"]:
            yield f"{of} is held by no relayer"


def _queues(facts: StatusFacts) -> Iterator[str]:
    for row in facts["queues"]:
        bound = QUEUED_SECONDS if row["state"] == "queued" else FLIGHT_SECONDS
        if row["oldest_seconds"] > bound:
            what = f"{row['count']} {row['kind']} on {row['chain_id']}"
            yield f"{what} are {row['state']}, the oldest for {ago(row['oldest_seconds'])}"


def _untold(facts: StatusFacts) -> Iterator[str]:
    for row in facts["untold"]:
        yield f"wallets were not told of {row['kind']} {row['intent_id']} on {row['chain_id']}: {row['problem']}"


def _jobs(facts: StatusFacts) -> Iterator[str]:
    for row in facts["jobs"]:
        if not row["ok"]:
            first = (row["errors"] or ["no reason given"])[0]
            yield f"job {row['job']} failed {ago(row['age_seconds'])} ago: {str(first)[:160]}"
        elif row["job"] == "refund-drill":
            continue  # on demand only
        elif row["age_seconds"] > (HOURLY_JOB_SECONDS if row["job"] in HOURLY_JOBS else JOB_SECONDS):
            yield f"job {row['job']} has not run for {ago(row['age_seconds'])}"
    for row in facts["asked"]:
        if row["waiting_seconds"] > ASKED_SECONDS:
            yield f"a run of {row['job']} asked for {ago(row['waiting_seconds'])} ago has not finished"


def _rest(facts: StatusFacts) -> Iterator[str]:
    for row in facts["audits"]:
        if row["mismatches"]:
            yield f"the last audit of chain {row['chain_id']} found {row['mismatches']} numbers unlike the chain's"
        if row["age_seconds"] > AUDIT_SECONDS:
            yield f"chain {row['chain_id']} was last audited {ago(row['age_seconds'])} ago"
    for row in facts["switches"]:
        why = f": {row['reason']}" if row["reason"] else ""
        yield f"the switch {row['name']} is on since {ago(row['age_seconds'])}, by {row['changed_by']}{why}"
    for row in facts["database"]:
        if row["connections"] > 0.9 * row["most_connections"]:
            yield f"{row['connections']} of {row['most_connections']} database connections are in use"


def ago(seconds: float | None) -> str:
    """A short span of time, as people say it."""
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{timedelta(seconds=int(seconds)).days} days"

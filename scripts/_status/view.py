"""Facts as a terminal shows them: one table per section, then what needs a look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from core.money import decimal_text
from scripts._status.concerns import ago
from scripts._status.facts import StatusFacts

ETHER_DECIMALS = 18


def lines(facts: StatusFacts, worries: Sequence[str]) -> Iterator[str]:
    yield from _table("daemons", ("", "process", "up", "last seen", ""), _daemons(facts))
    yield from _table("chains", ("", "block", "head", "lag", "age", "final", "reorgs today", "state"), _chains(facts))
    header = ("chain", "key", "serves", "status", "in flight", "nonce", "ether", "held by")
    yield from _table("lanes", header, _lanes(facts))
    yield from _table("queues", ("chain", "lane", "what", "state", "count", "oldest"), _queues(facts))
    yield from _table("last hour", ("chain", "what", "ended", "count"), _ended(facts))
    yield from _table("jobs", ("", "last run", "took", "last acted", "result"), _jobs(facts))
    yield from _table("audits", ("chain", "block", "compared", "mismatches", "when"), _audits(facts))
    yield from _table("webhooks", ("status", "count", "failing"), _webhooks(facts))
    yield from _table("metrics ports", ("", "", ""), _ports(facts))
    for row in facts["database"]:
        yield (
            f"database  PostgreSQL {row['version'].split()[0]}, {row['bytes'] / 1e6:,.0f} MB, "
            f"{row['connections']} of {row['most_connections']} connections\n"
        )
    if not worries:
        yield "nothing needs a look"
        return
    yield f"{len(worries)} to look at (docs/operate.md has the steps):"
    yield from (f"  - {worry}" for worry in worries)


def _daemons(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["daemons"]:
        said = ", ".join(f"{key} {value}" for key, value in row["detail"].items())
        role = "leads" if row["is_leader"] else ""
        about = "; ".join(part for part in (role, said) if part)
        yield row["daemon"], row["instance"], ago(row["up_seconds"]), f"{ago(row['silent_seconds'])} ago", about


def _chains(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["chains"]:
        head, final = row["head"], row["finalized"]
        yield (
            f"{row['name']} {row['chain_id']}",
            f"{row['block']:,}",
            "-" if head is None else f"{head:,}",
            f"{row['lag_blocks']:,}",
            ago(row["block_age_seconds"]),
            "-" if final is None else f"{final:,}",
            row["reorgs_today"],
            row["state"],
        )


def _lanes(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["lanes"]:
        wei = row["balance_wei"]
        ether = "-" if wei is None else decimal_text(int(wei) // 10**12, ETHER_DECIMALS - 12)
        yield (
            row["chain_id"],
            row["address"][:10],
            "+".join(row["groups"]),
            row["status"],
            row["in_flight"],
            "-" if row["next_nonce"] is None else row["next_nonce"],
            ether,
            row["holder"] if row["held"] else "nobody",
        )


def _queues(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["queues"]:
        oldest = ago(row["oldest_seconds"])
        yield row["chain_id"], row["lane_group"], row["kind"], row["state"], row["count"], oldest


def _ended(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["ended"]:
        yield row["chain_id"], row["kind"], row["outcome"], row["count"]


def _jobs(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["jobs"]:
        result = "ok" if row["ok"] else f"failed: {str((row['errors'] or ['?'])[0])[:60]}"
        acted = "-" if row["acted_seconds"] is None else f"{ago(row['acted_seconds'])} ago"
        yield row["job"], f"{ago(row['age_seconds'])} ago", f"{row['took_seconds']:.2f} s", acted, result


def _audits(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["audits"]:
        numbers = f"{row['block']:,}", f"{row['compared']:,}", row["mismatches"]
        yield row["chain_id"], *numbers, f"{ago(row['age_seconds'])} ago"


def _webhooks(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for row in facts["webhooks"]:
        yield row["status"], row["count"], row["failing"]


def _ports(facts: StatusFacts) -> Iterator[tuple[Any, ...]]:
    for name, seen in facts.metrics.items():
        if not seen["up"]:
            yield name, "down", seen["why"]
            continue
        memory = sum(each["value"] for each in seen["samples"] if each["name"] == "process_resident_memory_bytes")
        yield name, "ready" if seen["ready"] else "not ready", f"{memory / 1e6:,.0f} MB"


def _table(title: str, header: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    body = [[str(cell) for cell in row] for row in rows]
    if not body:
        return
    shown = [list(header), *body] if any(header) else body
    widths = [max(len(row[at]) for row in shown) for at in range(len(header))]
    yield title
    for row in shown:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""

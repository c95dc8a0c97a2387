"""`tidy`, `agent-tidy`: old finished transactions, attempts, requests and price locks make room.

What an intent's key still guards is kept: see core.outbox.retention. Attempts guard themselves by their counts, so what
they asked for can go for good, together with the attempt.
"""

from __future__ import annotations

from core.db.engine import Connection
from core.outbox import retention
from core.service import jobs
from keeper import attempts, metrics
from keeper.report import Action
from keeper.run import JobRun

AT_ONCE = 500
MAX_BATCHES = 40
"""A run takes away at most so much; the next goes on."""
KEEP_LOCKS_SECONDS = 24 * 3600
"""For so long a spent or expired price lock is distinguished from one that never existed."""


async def tidy(run: JobRun) -> None:
    """Delete old transactions of the stock chain, and old requests for jobs."""
    await _transactions(run)
    if not run.dry_run:
        async with run.keeper.pool.connection() as connection:
            _report_rows(run, "requests", await jobs.forget(connection, days=run.keeper.how.keep_days))


async def tidy_agent(run: JobRun) -> None:
    """Delete old transactions of Base, and price locks that can no longer be used."""
    await _transactions(run)
    if not run.dry_run:
        async with run.keeper.pool.connection() as connection:
            cursor = await connection.execute(
                "DELETE FROM agent_quote WHERE expires_at < now() - make_interval(secs => %s)", (KEEP_LOCKS_SECONDS,)
            )
            _report_rows(run, "locks", cursor.rowcount)


async def _transactions(run: JobRun) -> None:
    days, chain_id = run.keeper.how.keep_days, run.chain.chain_id
    if run.dry_run:
        run.report.skip("transactions", f"those that ended more than {days} days ago would be thinned out")
        return
    thinned = dropped = forgotten = 0
    for _ in range(MAX_BATCHES):
        async with run.keeper.pool.connection() as connection, connection.transaction():
            old = await retention.long_ended(connection, chain_id, days=days, limit=AT_ONCE)
            gone, attempts_gone = await _take_away(connection, chain_id, old)
        thinned += len(old) - gone
        dropped += gone
        forgotten += attempts_gone
        if len(old) < AT_ONCE:
            break
    _report_rows(run, "thinned", thinned)
    _report_rows(run, "dropped", dropped)
    _report_rows(run, "attempts", forgotten)


async def _take_away(connection: Connection, chain_id: int, old: list[retention.Old]) -> tuple[int, int]:
    """Return how many intents and attempts are gone."""
    if not old:
        return 0, 0
    prefix = attempts.key_prefix(chain_id)
    guarded = [each.id for each in old if each.is_noop or each.key.startswith(prefix)]
    forgotten = await attempts.forget(connection, guarded)
    await retention.thin(connection, [each.id for each in old])
    return await retention.drop(connection, guarded), forgotten


def _report_rows(run: JobRun, what: str, rows: int) -> None:
    metrics.TIDIED.labels(run.chain.name, what).inc(rows)
    if rows:
        run.report.actions.append(Action("tidy", what, "done", f"{rows} rows"))

"""`tidy`, `agent-tidy`: delete old finished transactions, attempts, job requests and price locks.

Intents whose key still prevents a duplicate are kept (core.outbox.thin_long_ended). Attempts prevent duplicates by
their counts, so their intents are deleted with them.
"""

from __future__ import annotations

from core import outbox
from core.db.engine import Connection
from core.service import jobs
from keeper import attempts
from keeper.run import Action, JobRun

AT_ONCE = 500
MAX_BATCHES = 40
"""Batches deleted in one run; the next run continues."""
KEEP_LOCKS_SECONDS = 24 * 3600
"""How long the API can tell a spent or expired price lock from one that never existed."""


async def tidy(run: JobRun) -> None:
    await _transactions(run)
    if not run.dry_run:
        async with run.keeper.pool.connection() as connection:
            _report_rows(run, "requests", await jobs.forget(connection, days=run.keeper.how.keep_days))


async def tidy_agent(run: JobRun) -> None:
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
            old = await outbox.thin_long_ended(connection, chain_id, days=days, limit=AT_ONCE)
            gone, attempts_gone = await _delete_old(connection, chain_id, old)
        thinned += len(old) - gone
        dropped += gone
        forgotten += attempts_gone
        if len(old) < AT_ONCE:
            break
    _report_rows(run, "thinned", thinned)
    _report_rows(run, "dropped", dropped)
    _report_rows(run, "attempts", forgotten)


async def _delete_old(connection: Connection, chain_id: int, old: list[outbox.EndedIntent]) -> tuple[int, int]:
    """Delete or thin out old intents; return how many intents and attempts were deleted."""
    if not old:
        return 0, 0
    prefix = attempts.key_prefix(chain_id)
    guarded = [each.id for each in old if each.is_noop or each.key.startswith(prefix)]
    forgotten = await attempts.forget(connection, guarded)
    return await outbox.drop(connection, guarded), forgotten


def _report_rows(run: JobRun, what: str, rows: int) -> None:
    if rows:
        run.report.actions.append(Action("tidy", what, "done", f"{rows} rows"))

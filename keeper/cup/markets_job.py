"""`cup-markets`: a paper market for every agent market that is open, and settled as that one was."""

from __future__ import annotations

from datetime import UTC, datetime

from core.agent.document import feed_keys
from core.cup import books, settling
from keeper.report import Action
from keeper.run import JobRun


async def follow_markets(run: JobRun) -> None:
    """Settles whatever has ended, also when the tournament is over; opens new paper markets only while it runs."""
    finality_blocks = run.keeper.settings.chain("base").finality_blocks
    async with run.keeper.pool.connection() as connection:
        for slug, winner in await settling.due(connection, run.chain.chain_id, finality_blocks):
            detail = "void: give every stake back" if winner is None else f"outcome {winner} won: pay its positions"
            if run.dry_run:
                run.report.actions.append(Action("cup-settle", slug, "dry-run", detail))
                continue
            try:
                positions = await settling.settle(connection, slug, winner, now_utc)
            except Exception as error:  # what is wrong with one market keeps nobody of another from being paid
                if connection.closed:
                    raise
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                run.report.errors.append(f"The paper market {slug} is not settled: {why}")
                continue
            if positions is not None:
                run.report.actions.append(Action("cup-settle", slug, "done", f"{detail}; {positions} positions"))
        now = now_utc()
        if not tournament_runs(run, now):
            run.report.skip("paper markets", "the tournament is not running")
        elif run.dry_run:
            run.report.skip("paper markets", "a dry run opens none")
        else:
            observed = feed_keys(run.chain.deployment.agent_feeds)
            for slug in await books.mirror(connection, now, observed):
                run.report.actions.append(Action("cup-open", slug, "done", "a paper market beside the listed one"))


def now_utc() -> datetime:
    return datetime.now(UTC)


def tournament_runs(run: JobRun, now: datetime) -> bool:
    opens, closes = run.keeper.settings.cup_opens_at, run.keeper.settings.cup_closes_at
    return opens is not None and closes is not None and opens <= now < closes

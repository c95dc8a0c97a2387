"""The jobs of the cup: paper markets that mirror the listed ones, and roulette.

`cup-roulette` publishes the hash of a closed round's bets, finishes the round when its beacon is mined, and then opens
the next. All state is in the database: after a kill at any point, the next run continues, in any process.
"""

from __future__ import annotations

from datetime import UTC, datetime

from core.agent.document import feed_keys
from core.chain import ChainClient
from core.cup import books, rounds, settling
from core.cup.rounds import RouletteRound
from core.hexadecimal import bytes_of, hex_of
from keeper.run import Action, JobRun


async def follow_markets(run: JobRun) -> None:
    """Settle ended paper markets, even after the tournament. Open new ones only during the tournament."""
    finality_blocks = run.keeper.settings.chain("base").finality_blocks
    async with run.keeper.pool.connection() as connection:
        for slug, winner in await settling.due(connection, run.chain.chain_id, finality_blocks):
            detail = "void: refund every stake" if winner is None else f"outcome {winner} won: pay its positions"
            if run.dry_run:
                run.report.actions.append(Action("cup-settle", slug, "dry-run", detail))
                continue
            try:
                positions = await settling.settle(connection, slug, winner, now_utc)
            except Exception as error:  # a fault in one market must not delay the payouts of others
                if connection.closed:
                    raise
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                run.report.errors.append(f"Could not settle the paper market {slug}: {why}")
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
                detail = "a paper market that mirrors the listed one"
                run.report.actions.append(Action("cup-open", slug, "done", detail))


def now_utc() -> datetime:
    return datetime.now(UTC)


def tournament_runs(run: JobRun, now: datetime) -> bool:
    opens, closes = run.keeper.settings.cup_opens_at, run.keeper.settings.cup_closes_at
    return opens is not None and closes is not None and opens <= now < closes


CONFIRMATIONS = 1
"""Blocks that must follow the beacon, so that a reorganization of the newest block does not remove it."""


async def spin(run: JobRun) -> None:
    async with run.keeper.pool.connection() as connection:
        live = await rounds.latest(connection)
    now = now_utc()
    phase = "settled" if live is None else live.phase(now)
    if live is not None and phase == "spin" and live.settled_at is None:
        if live.bets_hash is None and not run.dry_run:
            await _close(run, live)
        await _finish(run, live)
    if phase != "settled":
        return  # the next run opens the next round: by now this run's clock readings are old
    if not tournament_runs(run, now):
        run.report.skip("the next round", "the tournament is not running")
        return
    if run.dry_run:
        run.report.skip("the next round", "a dry run opens none")
        return
    head = await run.chain.client.head()
    async with run.keeper.pool.connection() as connection:
        opened = await rounds.open_next(connection, now, run.chain.chain_id, head.number, head.timestamp)
    if opened is not None:
        run.report.actions.append(Action("cup-round", f"round {opened.round_no}", "open", "betting for 45 s"))


async def _close(run: JobRun, live: RouletteRound) -> None:
    """Publish the hash of a closed round's bets, before its beacon exists."""
    async with run.keeper.pool.connection() as connection:
        closed = await rounds.close(connection, live.round_no, now_utc)
    if closed is not None and closed.bets_hash is not None:
        detail = f"bets {hex_of(closed.bets_hash)}"
        run.report.actions.append(Action("cup-close", f"round {live.round_no}", "done", detail))


async def _finish(run: JobRun, live: RouletteRound) -> None:
    target = f"round {live.round_no}"
    if live.chain_id != run.chain.chain_id:
        wrong = f"{target} needs a block of chain {live.chain_id}, but this is chain {run.chain.chain_id}."
        run.report.errors.append(wrong)
        return
    head, beacon = await run.chain.client.head(), None
    if head.timestamp >= live.beacon_after:
        newest = head.number - CONFIRMATIONS
        beacon = await find_beacon(run.chain.client, live.beacon_after, live.head_number, newest)
    if beacon is None:
        run.report.skip(target, f"no confirmed block at or after {live.beacon_after} yet")
        return
    number, block_hash = beacon
    if run.dry_run:
        run.report.actions.append(Action("cup-spin", target, "dry-run", f"draw from block {number}"))
        return
    async with run.keeper.pool.connection() as connection:
        done = await rounds.finish(connection, live.round_no, number, bytes_of(block_hash, 32), now_utc)
    if done is None:
        run.report.skip(target, "another keeper finished it a moment ago")
        return
    run.report.actions.append(Action("cup-spin", target, "settled", f"pocket {done.pocket}, block {number}"))


async def find_beacon(client: ChainClient, after: int, lowest: int, newest: int) -> tuple[int, str] | None:
    """Return the number and hash of the first block at or after the time `after`, or None if there is none among the
    blocks above `lowest` and up to `newest`.

    `lowest` is a block that was the head before the time `after`. On a shorter chain (a local one that was recreated)
    the search starts at the first block.
    """
    low = lowest if lowest < newest else -1
    high, step = newest, 1
    best = await client.block(high) if high >= 0 else None
    if best is None or best.timestamp < after:
        return None
    # Invariant: `low` is before `after` (or before the chain), `high` is not, and `best` is the block `high`.
    while high - low > 1:
        # The beacon is usually one of the newest blocks, so look there first.
        middle, step = max((low + high) // 2, high - step), 2 * step
        block = await client.block(middle)
        if block is None:
            return None
        if block.timestamp >= after:
            high, best = middle, block
        else:
            low = middle
    return best.number, best.hash

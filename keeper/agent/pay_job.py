"""`agent-pay`: pays winners, gives refunds back, and brings fees to the treasury."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, exists, or_, select

from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.mirror.settlement import Book
from core.outbox import KEEPER
from keeper import metrics
from keeper.agent.paying import IN_BOOK, OWED_BACK, RESOLVED, VOID, Due, Stake, dues, payments
from keeper.desk import Run
from keeper.errands import Rest, Want, after_refusals

REST = Rest(after_success=120.0, after_failure=20.0, longest=3600.0)
SWEEP_REST = Rest(after_success=3600.0)
AT_MOST = 1_000
"""Stakes of one market looked at in one run."""

MARKETS, OUTCOMES, STAKES = agent_market.c, agent_outcome.c, agent_stake.c


async def pay(run: Run) -> None:
    owed_in_all = 0
    for market in await _markets(run):
        owed = await _owed(run, market)
        owed_in_all += len(owed)
        await _pay(run, market, owed)
    metrics.DUE.labels(run.report.job, "stakes").set(owed_in_all)
    await _sweep(run)


async def _markets(run: Run) -> list[Any]:
    """Those with a stake that may be owed something."""
    nobody_won = exists().where(
        OUTCOMES.market_id == MARKETS.market_id, OUTCOMES.outcome == MARKETS.winner, OUTCOMES.shares == 0
    )
    in_book = and_(
        STAKES.status == IN_BOOK,
        or_(
            MARKETS.status == VOID,
            and_(MARKETS.status == RESOLVED, or_(STAKES.outcome == MARKETS.winner, nobody_won)),
        ),
    )
    owed = exists().where(STAKES.market_id == MARKETS.market_id, or_(STAKES.status == OWED_BACK, in_book))
    async with run.keeper.engine.connect() as connection:
        query = select(agent_market).where(owed).order_by(MARKETS.closed_at, MARKETS.market_id)
        return list((await connection.execute(query)).all())


async def _owed(run: Run, market: Any) -> list[Due]:
    async with run.keeper.engine.connect() as connection:
        outcomes = (
            await connection.execute(
                select(OUTCOMES.net, OUTCOMES.shares)
                .where(OUTCOMES.market_id == market.market_id)
                .order_by(OUTCOMES.outcome)
            )
        ).all()
        book = Book(
            virtual_liquidity=market.virtual_liquidity,
            fee_bps=market.fee_bps,
            net=tuple(row.net for row in outcomes),
            shares=tuple(row.shares for row in outcomes),
        )
        mine = [STAKES.status == OWED_BACK]
        if market.status == VOID or (market.status == RESOLVED and book.refunds(market.winner)):
            mine.append(STAKES.status == IN_BOOK)
        elif market.status == RESOLVED:
            mine.append(and_(STAKES.status == IN_BOOK, STAKES.outcome == market.winner))
        rows = (
            await connection.execute(
                select(agent_stake)
                .where(STAKES.market_id == market.market_id, or_(*mine))
                .order_by(STAKES.failed_payouts, STAKES.stake_id)
                .limit(AT_MOST)
            )
        ).all()
    stakes = [Stake(row.stake_id, row.status, row.outcome, row.amount, row.shares, row.failed_payouts) for row in rows]
    return dues(stakes, book, market.status, market.winner)


async def _pay(run: Run, market: Any, owed: list[Due]) -> None:
    name = market.slug or "0x" + market.market_id.hex()
    waiting = await run.free([_subject(due) for due in owed], REST)
    ready = []
    for due in owed:
        reason = waiting[_subject(due)]
        if reason is None:
            ready.append(due)
        else:
            run.report.skip(f"stake {due.stake_id}", reason)
    wallet = run.desk.contract("SettlementWallet")
    for batch in payments(ready):
        call = wallet.call("pay", market.market_id, [due.stake_id for due in batch])
        want = Want(
            kind="pay",
            subjects=tuple(_subject(due) for due in batch),
            target=f"{len(batch)} stakes of {name}",
            detail=f"send {sum(due.amount for due in batch)} units to their wallets",
            group=KEEPER,
            to=call.to,
            data=call.data,
            priority=3,
        )
        await run.ask(want, after_refusals(min(due.failed for due in batch), REST))


def _subject(due: Due) -> str:
    return f"agent:pay:{due.stake_id}"


async def _sweep(run: Run) -> None:
    wallet = run.desk.contract("SettlementWallet")
    answers: list[Any] = await run.read_all([wallet.call("liabilities")])
    _, _, fees = answers[0]
    least = run.keeper.how.sweep_from_units
    if fees < least:
        run.report.skip("fees", f"{fees} units are ready, swept from {least} on")
        return
    call = wallet.call("sweepFees")
    want = Want(
        kind="sweep",
        subjects=("agent:sweep",),
        target="fees",
        detail=f"bring {fees} units of fees to the treasury",
        group=KEEPER,
        to=call.to,
        data=call.data,
        priority=-10,
    )
    await run.ask(want, SWEEP_REST)

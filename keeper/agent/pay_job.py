"""`agent-pay`: pays winners, gives refunds back, and brings fees to the treasury.

What is owed comes from the index. The contract counts too, and where it owes more than the index knows, its own views
say to whom: nobody waits for money because a row is gone.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, or_, select

from core.agent.book import Book
from core.chain import Call, Contract, values
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from keeper.agent.paying import Counters, DueStake, UnpaidStake, dues, has_lost, lost_ids
from keeper.chain import index_state
from keeper.errands import RetryWaits, Want, after_refusals, in_batches
from keeper.run import JobRun

log = get_logger(__name__)

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=20.0, longest_seconds=3600.0)
MAX_ROWS = 1_000
"""Stakes of one market looked at in one run."""

MARKETS, OUTCOMES, STAKES = agent_market.c, agent_outcome.c, agent_stake.c


async def pay(run: JobRun) -> None:
    owed_by_index, is_all = 0, True
    owed_in_all: list[DueStake] = []
    for market in await _markets(run):
        owed = await _owed(run, market)
        owed_in_all += owed
        owed_by_index += sum(due.amount for due in owed)
        is_all = is_all and len(owed) < MAX_ROWS
        await _pay(run, market.market_id, market.slug or hex_of(market.market_id), owed)
    run.measure_payouts("stakes", owed_in_all)
    if is_all:
        await _pay_what_the_index_lost(run, owed_by_index)
    await _sweep(run)


async def _markets(run: JobRun) -> list[Any]:
    """Those that owe a stake something."""
    return await run.rows(select(agent_market).where(MARKETS.unpaid > 0).order_by(MARKETS.closed_at, MARKETS.market_id))


async def _owed(run: JobRun, market: Any) -> list[DueStake]:
    outcomes = await run.rows(
        select(OUTCOMES.net, OUTCOMES.shares, OUTCOMES.excess)
        .where(OUTCOMES.market_id == market.market_id)
        .order_by(OUTCOMES.outcome)
    )
    book = Book.of_rows(market, outcomes)
    mine = [STAKES.status == StakeStatus.OWED_BACK]
    is_resolved = market.status == AgentMarketStatus.RESOLVED
    if market.status == AgentMarketStatus.VOID or (is_resolved and book.refunds(market.winner)):
        mine.append(STAKES.status == StakeStatus.IN_BOOK)
    elif is_resolved:
        mine.append(and_(STAKES.status == StakeStatus.IN_BOOK, STAKES.outcome == market.winner))
    rows = await run.rows(
        select(agent_stake)
        .where(STAKES.market_id == market.market_id, or_(*mine))
        .order_by(STAKES.failed_payouts, STAKES.stake_id)
        .limit(MAX_ROWS)
    )
    stakes = [
        UnpaidStake(
            row.stake_id,
            row.wallet,
            row.status,
            row.outcome,
            int(row.amount),
            int(row.shares),
            row.failed_payouts,
            due_at=row.staked_at if row.status == StakeStatus.OWED_BACK else market.closed_at,
        )
        for row in rows
    ]
    return dues(stakes, book, market.status, market.winner)


async def _pay(run: JobRun, market_id: bytes, name: str, owed: list[DueStake]) -> None:
    waiting = await run.free([due.subject for due in owed], RETRY)
    ready = []
    for due in owed:
        reason = waiting[due.subject]
        if reason is None:
            ready.append(due)
        else:
            run.report.skip(f"stake {due.stake_id}", reason)
    wallet = run.chain.contract("SettlementWallet")
    for batch in in_batches(ready):
        call = wallet.call("pay", market_id, [due.stake_id for due in batch])
        want = Want(
            kind="pay",
            subjects=tuple(due.subject for due in batch),
            target=f"{len(batch)} stakes of {name}",
            detail=f"send {sum(due.amount for due in batch)} units to their wallets",
            call=call,
            priority=3,
        )
        await run.ask(want, after_refusals(min(due.failed for due in batch), RETRY))


# ---------------------------------------------------------------- what the index lost


async def _pay_what_the_index_lost(run: JobRun, indexed: int) -> None:
    """Compares what the contract owes at the index's block with what the index says, and pays the rest by its views."""
    if run.index is None or run.index.state != "tail":
        return
    if await index_state(run.keeper.engine, run.chain.chain_id) != run.index:
        return  # it moved while it was read; the next run is seconds away
    wallet, block = run.chain.contract("SettlementWallet"), run.indexed_block
    _, unpaid, _ = await run.chain.client.read(wallet.call("liabilities"), block)
    lost = unpaid - indexed if has_lost(unpaid, indexed) else 0
    since = await run.said_since("agent:pay:index", "lost" if lost else "whole")
    run.measure_due("units the index lost", [since] if lost else [], lost)
    if not lost:
        return
    log.error(
        "the contract owes more than the index knows; asking the contract",
        action="keeper.index_lost",
        owed=unpaid,
        known=indexed,
    )
    count = int(await run.chain.client.read(wallet.call("marketCount"), block))
    for start in range(0, count, MAX_ROWS):
        positions = range(start, min(count, start + MAX_ROWS))
        ids = await _views(run, [wallet.call("marketIdAt", each) for each in positions])
        views = await _views(run, [wallet.call("market", each) for each in ids])
        for market_id, view in zip(ids, views, strict=True):
            await _pay_lost(run, wallet, market_id, view)


async def _pay_lost(run: JobRun, wallet: Contract, market_id: bytes, view: Any) -> None:
    chain = Counters(view["stakes"], view["status"], view["paidOut"], view["paidShares"])
    indexed = [
        Counters(row.stakes + row.late_payments, row.status, int(row.paid_out), int(row.paid_shares))
        for row in await run.rows(select(agent_market).where(MARKETS.market_id == market_id))
    ]
    # Of a market that the index takes for paid nothing was looked at before.
    looked_at = select(STAKES.stake_id).join(agent_market, MARKETS.market_id == STAKES.market_id)
    looked_at = looked_at.where(STAKES.market_id == market_id, MARKETS.unpaid > 0)
    looked_at_ids = {row.stake_id for row in await run.rows(looked_at)}
    ids = lost_ids(view["index"], chain, indexed[0] if indexed else None, looked_at_ids)
    owed = []
    for start in range(0, len(ids), MAX_ROWS):
        part = ids[start : start + MAX_ROWS]
        stakes = await _views(run, [wallet.call("stake", each) for each in part])
        owed += [
            DueStake(each, bytes_of(stake["wallet"]), stake["payable_"], failed=0, due_at=run.now)
            for each, stake in zip(part, stakes, strict=True)
            if stake["payable_"]
        ]
    await _pay(run, market_id, hex_of(market_id), owed)


async def _views(run: JobRun, calls: list[Call]) -> list[Any]:
    """At the index's block; what the contract listed there is never unknown to it."""
    return values(await run.chain.client.read_many(calls, run.indexed_block))


# ---------------------------------------------------------------- fees


async def _sweep(run: JobRun) -> None:
    wallet = run.chain.contract("SettlementWallet")
    answers: list[Any] = await run.read_all([wallet.call("liabilities")])
    _, _, fees = answers[0]
    await run.sweep(fees, wallet.call("sweepFees"))

"""`agent-pay`: pays winners, gives refunds back, and brings fees to the treasury. Amounts in token units.

The index says whom we owe. The contract counts too, and where it owes more than the index knows, its views say to whom:
no owner waits for money because a row is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_, select

from core.agent.book import Book
from core.chain import Call, Contract, values
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from keeper import payouts
from keeper.payouts import Payout
from keeper.run import JobRun, index_state

log = get_logger(__name__)

MIN_LOST = 500_000
"""What the contract owes beyond what the index knows, from which on its counters are compared: less than the least that
a stake can be owed, more than what is left of divisions."""


@dataclass(frozen=True, slots=True)
class Counters:
    """A market in numbers, of the contract or of the index."""

    status: int
    paid_out: int
    paid_shares: int


def dues(market: Any, book: Book, stakes: Sequence[Any]) -> list[Payout]:
    """Return the payouts due from one market, by its row and those of its stakes. A late payment goes back no matter
    how the market ends."""
    is_settled = market.status in (AgentMarketStatus.RESOLVED, AgentMarketStatus.VOID)
    winner = market.winner if market.status == AgentMarketStatus.RESOLVED else None
    owing = []
    for stake in sorted(stakes, key=lambda each: each.stake_id):
        owed, due_at = 0, market.closed_at
        if stake.status == StakeStatus.OWED_BACK:
            owed, due_at = int(stake.amount), stake.staked_at
        elif stake.status == StakeStatus.IN_BOOK and is_settled and stake.outcome is not None:
            owed = book.owed(winner, stake.outcome, int(stake.amount), int(stake.shares))
        if owed:
            name = market.slug or hex_of(market.market_id)
            owing.append(_payout(stake.stake_id, name, stake.wallet, owed, stake.failed_payouts, due_at))
    return owing


def _payout(stake_id: int, market: str, owner: bytes, amount: int, failed: int, due_at: int) -> Payout:
    return Payout(f"agent:pay:{stake_id}", stake_id, market, owner, amount, failed, due_at)


def has_lost(unpaid: int, indexed: int) -> bool:
    """Return whether the contract owes more than the index knows of, both at one block."""
    return unpaid - indexed >= MIN_LOST


def lost_ids(
    index: int, stakes: int, chain: Counters, indexed: Counters | None, looked_at: Collection[int]
) -> list[int]:
    """Return the ids of a market's stakes that must be asked of the contract: those whose rows were not `looked_at`,
    and all of a market whose numbers differ. `index`: its position in opening order; `stakes`: how many ids it gave
    out."""
    ids = [index << 32 | n for n in range(stakes)]
    return ids if chain != indexed else [each for each in ids if each not in looked_at]


MAX_ROWS = 1_000
"""Stakes of one market looked at in one run."""

MARKETS, OUTCOMES, STAKES = agent_market.c, agent_outcome.c, agent_stake.c


async def pay(run: JobRun) -> None:
    owed_by_index, is_all = 0, True
    owed_in_all: list[Payout] = []
    for market in await _markets(run):
        owed = await _owed(run, market)
        owed_in_all += owed
        owed_by_index += sum(due.amount for due in owed)
        is_all = is_all and len(owed) < MAX_ROWS
        await _pay(run, market.market_id, owed)
    payouts.measure(run, "stakes", owed_in_all)
    if is_all:
        await _pay_what_the_index_lost(run, owed_by_index)
    await _sweep(run)


async def _markets(run: JobRun) -> list[Any]:
    """Return those that owe a stake something."""
    return await run.rows(select(agent_market).where(MARKETS.unpaid > 0).order_by(MARKETS.closed_at, MARKETS.market_id))


async def _owed(run: JobRun, market: Any) -> list[Payout]:
    outcomes = await run.rows(
        select(OUTCOMES.net, OUTCOMES.shares, OUTCOMES.excess)
        .where(OUTCOMES.market_id == market.market_id)
        .order_by(OUTCOMES.outcome)
    )
    book = Book.from_rows(market, outcomes)
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
    return dues(market, book, rows)


async def _pay(run: JobRun, market_id: bytes, owed: list[Payout]) -> None:
    wallet = run.chain.contract("SettlementWallet")
    ready = await payouts.ready(run, owed)
    await payouts.send(run, "pay", ready, lambda ids: wallet.call("pay", market_id, ids), priority=3)


# ---------------------------------------------------------------- what the index lost


async def _pay_what_the_index_lost(run: JobRun, indexed: int) -> None:
    """Compare what the contract owes at the index's block with what the index says, and pay the rest by its views."""
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
    chain = Counters(view["status"], view["paidOut"], view["paidShares"])
    indexed = [
        Counters(row.status, int(row.paid_out), int(row.paid_shares))
        for row in await run.rows(select(agent_market).where(MARKETS.market_id == market_id))
    ]
    # Of a market that the index takes for paid nothing was looked at before.
    looked_at = select(STAKES.stake_id).join(agent_market, MARKETS.market_id == STAKES.market_id)
    looked_at = looked_at.where(STAKES.market_id == market_id, MARKETS.unpaid > 0)
    looked_at_ids = {row.stake_id for row in await run.rows(looked_at)}
    ids = lost_ids(view["index"], view["stakes"], chain, indexed[0] if indexed else None, looked_at_ids)
    owed = []
    for start in range(0, len(ids), MAX_ROWS):
        part = ids[start : start + MAX_ROWS]
        stakes = await _views(run, [wallet.call("stake", each) for each in part])
        owed += [
            _payout(each, hex_of(market_id), bytes_of(stake["wallet"]), stake["payable_"], failed=0, due_at=run.now)
            for each, stake in zip(part, stakes, strict=True)
            if stake["payable_"]
        ]
    await _pay(run, market_id, owed)


async def _views(run: JobRun, calls: list[Call]) -> list[Any]:
    """At the index's block; what the contract listed there is never unknown to it."""
    return values(await run.chain.client.read_many(calls, run.indexed_block))


# ---------------------------------------------------------------- fees


async def _sweep(run: JobRun) -> None:
    wallet = run.chain.contract("SettlementWallet")
    answers: list[Any] = await run.read_all([wallet.call("liabilities")])
    _, _, fees = answers[0]
    await payouts.sweep(run, fees, wallet.call("sweepFees"))

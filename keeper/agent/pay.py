"""`agent-pay`: pays winners and refunds, and sends fees to the treasury. Amounts are in token units.

Payouts are read from the index. If the contract owes more than the index shows, payouts are read from the contract's
views: a missing row must not delay a payment.
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

MIN_MISSING_UNITS = 500_000
"""The smallest difference between contract and index for which stakes are compared: less than the smallest payout, more
than rounding residue."""


@dataclass(frozen=True, slots=True)
class Counters:
    status: int
    paid_out: int
    paid_shares: int


def payouts_due(market: Any, book: Book, stakes: Sequence[Any]) -> list[Payout]:
    """Return the payouts due from a market, given the market's rows in the index. A late payment is refunded no matter
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


def is_missing(unpaid: int, indexed: int) -> bool:
    """Return whether the contract owes at least MIN_MISSING_UNITS more (`unpaid`) than the index shows at the same
    block."""
    return unpaid - indexed >= MIN_MISSING_UNITS


def unindexed_ids(
    index: int, stakes: int, chain: Counters, indexed: Counters | None, known_ids: Collection[int]
) -> list[int]:
    """Return the ids of a market's stakes to read from the contract. These are all ids if the counters of the contract
    and the index differ, otherwise the ids that are not in `known_ids`. `index` is the market's position in opening
    order, and `stakes` is how many ids the market has assigned."""
    ids = [index << 32 | n for n in range(stakes)]
    return ids if chain != indexed else [each for each in ids if each not in known_ids]


MAX_ROWS = 1_000
"""Stakes of a market read in one run."""

MARKETS, OUTCOMES, STAKES = agent_market.c, agent_outcome.c, agent_stake.c


async def pay(run: JobRun) -> None:
    owed_by_index, is_all = 0, True
    owed_in_all: list[Payout] = []
    with_unpaid = select(agent_market).where(MARKETS.unpaid > 0).order_by(MARKETS.closed_at, MARKETS.market_id)
    for market in await run.rows(with_unpaid):
        owed = await _owed(run, market)
        owed_in_all += owed
        owed_by_index += sum(due.amount for due in owed)
        is_all = is_all and len(owed) < MAX_ROWS
        await _pay(run, market.market_id, owed)
    payouts.measure(run, "stakes", owed_in_all)
    if run.index is None or run.index.state != "tail":
        return  # nodes may not have the state of an old block
    wallet = run.chain.contract("SettlementWallet")
    _, unpaid, fees = await run.chain.client.read(wallet.call("liabilities"), run.indexed_block)
    if is_all:
        await _pay_missing_from_index(run, wallet, unpaid, owed_by_index)
    await payouts.sweep(run, fees, wallet.call("sweepFees"))


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
    return payouts_due(market, book, rows)


async def _pay(run: JobRun, market_id: bytes, owed: list[Payout]) -> None:
    wallet = run.chain.contract("SettlementWallet")
    ready = await payouts.ready(run, owed)
    await payouts.send(run, "pay", ready, lambda ids: wallet.call("pay", market_id, ids), priority=3)


# ---------------------------------------------------------------- stakes missing from the index


async def _pay_missing_from_index(run: JobRun, wallet: Contract, unpaid: int, indexed: int) -> None:
    """If the contract owes more than the index shows at the same block, read the missing payouts from the contract's
    views and send them."""
    if await index_state(run.keeper.engine, run.chain.chain_id) != run.index:
        return  # it moved during the reads, and the next run is seconds away
    lost = unpaid - indexed if is_missing(unpaid, indexed) else 0
    since = await run.claimed_since("agent:pay:index", "lost" if lost else "whole")
    run.measure_due("units missing from the index", [since] if lost else [], lost)
    if not lost:
        return
    text = "the index is missing payouts; reading them from the contract"
    log.error(text, action="keeper.index_lost", owed=unpaid, known=indexed)
    count = int(await run.chain.client.read(wallet.call("marketCount"), run.indexed_block))
    for start in range(0, count, MAX_ROWS):
        positions = range(start, min(count, start + MAX_ROWS))
        ids = await _views(run, [wallet.call("marketIdAt", each) for each in positions])
        views = await _views(run, [wallet.call("market", each) for each in ids])
        for market_id, view in zip(ids, views, strict=True):
            await _pay_unindexed(run, wallet, market_id, view)


async def _pay_unindexed(run: JobRun, wallet: Contract, market_id: bytes, view: Any) -> None:
    chain = Counters(view["status"], view["paidOut"], view["paidShares"])
    indexed = [
        Counters(row.status, int(row.paid_out), int(row.paid_shares))
        for row in await run.rows(select(agent_market).where(MARKETS.market_id == market_id))
    ]
    # Stakes are known only if the index shows unpaid stakes of their market: others were not read before.
    known = select(STAKES.stake_id).join(agent_market, MARKETS.market_id == STAKES.market_id)
    known = known.where(STAKES.market_id == market_id, MARKETS.unpaid > 0)
    known_ids = {row.stake_id for row in await run.rows(known)}
    ids = unindexed_ids(view["index"], view["stakes"], chain, indexed[0] if indexed else None, known_ids)
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
    """Read views at the indexed block, because at that block the contract knows every market in the index."""
    return values(await run.chain.client.read_many(calls, run.indexed_block))

"""The reads of the proof page's numbers from the index: bettors, stakes, payouts, sweeps, the refund drill and the last
audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.stock.bodies.proof import AuditProof, FeeSweepProof, RefundProof
from core.chain import checksum
from core.db.schema.index import chain_audit, chain_cursor
from core.db.schema.index_stock import (
    stock_betting,
    stock_bettor,
    stock_fee_sweep,
    stock_market,
    stock_opener,
    stock_position,
    stock_total,
)
from core.hexadecimal import bytes_of, hex_of
from core.stock.projection import market_of
from core.stock.vested import Moment, as_of


@dataclass(frozen=True, slots=True)
class BettingTotals:
    """The sums over all bets except seeds, with amounts in token units. `bets` and `distinct` exclude the operator's
    wallets."""

    distinct: int = 0
    bets: int = 0
    operator_bets: int = 0
    staked: int = 0
    paid_to_bettors: int = 0


@dataclass(frozen=True, slots=True)
class MarketTotals:
    """The sums over all listed markets, with amounts in token units. `pool`: the sum of both books, in which finished
    batches count as matched."""

    markets: int = 0
    settled: int = 0
    resolved: int = 0
    seeded: int = 0
    pool: int = 0
    fees: int = 0
    paid: int = 0


async def has_history(connection: AsyncConnection, chain_id: int) -> bool:
    """Return whether the index has read the chain's history. Before that, the index has no sums."""
    return bool(await connection.scalar(select(chain_cursor.c.summed).where(chain_cursor.c.chain_id == chain_id)))


async def read_openers(connection: AsyncConnection) -> list[str]:
    """Return every wallet that was ever allowed to list markets."""
    return [checksum(each) for each in await connection.scalars(select(stock_opener.c.opener))]


async def read_betting(connection: AsyncConnection, operators: Sequence[str]) -> BettingTotals:
    everybody = (await connection.execute(select(stock_betting))).one_or_none()
    if everybody is None:
        return BettingTotals()
    owners = [bytes_of(each) for each in operators]
    ours = (await connection.execute(select(stock_bettor).where(stock_bettor.c.entered_by.in_(owners)))).all()
    bets = sum(each.bets for each in ours)
    return BettingTotals(
        distinct=everybody.wallets - len(ours),
        bets=everybody.bets - bets,
        operator_bets=bets,
        staked=everybody.offered,
        paid_to_bettors=everybody.payout - sum(each.payout for each in ours),
    )


async def read_totals(connection: AsyncConnection, now: Moment) -> MarketTotals:
    columns = stock_total.c
    names = ("markets", "settled", "resolved", "seeded", "principal", "fees", "paid")
    sums = select(*(func.coalesce(func.sum(columns[each]), 0) for each in names))
    markets, settled, resolved, seeded, principal, fees, paid = map(int, (await connection.execute(sums)).one())
    pending = select(stock_market).where(
        stock_market.c.closed_tx.is_(None),
        stock_market.c.pending_vintage.is_not(None),
        stock_market.c.feed.is_not(None),
        stock_market.c.strike_time.is_not(None),
    )
    for row in await connection.execute(pending):
        market = market_of(row)
        principal += as_of(market, now)[0].pool - market.pool
    return MarketTotals(markets, settled, resolved, seeded, principal, fees, paid)


async def read_sweeps(connection: AsyncConnection, limit: int) -> list[FeeSweepProof]:
    """Return the transfers of fees to the treasury, the newest first."""
    query = (
        select(stock_fee_sweep)
        .order_by(stock_fee_sweep.c.block_number.desc(), stock_fee_sweep.c.log_index.desc())
        .limit(limit)
    )
    return [
        FeeSweepProof(tx=hex_of(row.tx), amount=str(row.amount), at=row.at) for row in await connection.execute(query)
    ]


async def read_refunds(connection: AsyncConnection, market_id: int) -> list[RefundProof]:
    """Return the refunds of a void market's positions, in the order of entry. Each refund is of the position's accepted
    part, its refused part or both. If nothing of a position was accepted, all of it is the refused part."""
    sent = or_(stock_position.c.claimed, stock_position.c.refunded)
    query = (
        select(stock_position).where(stock_position.c.market_id == market_id, sent).order_by(stock_position.c.ordinal)
    )
    return [
        RefundProof(
            position_id=str(row.position_id),
            owner=checksum(row.owner),
            amount=str(row.payout + row.refund),
            tx=None if row.payout_tx is None else hex_of(row.payout_tx),
        )
        for row in await connection.execute(query)
    ]


async def read_audit(connection: AsyncConnection, chain_id: int) -> AuditProof | None:
    at = func.extract("epoch", chain_audit.c.at).cast(BigInteger)
    query = (
        select(at, chain_audit.c.block_number, chain_audit.c.compared, chain_audit.c.mismatches)
        .where(chain_audit.c.chain_id == chain_id)
        .order_by(chain_audit.c.id.desc())
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return AuditProof(at=int(row[0]), block=str(row[1]), compared=row[2], mismatches=row[3])

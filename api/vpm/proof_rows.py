"""What the proof page counts from the index: bettors, stakes, payouts, sweeps, the refund drill, the last audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Numeric, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chain import checksum
from core.db.schema.index import chain_audit
from core.db.schema.index_stock import stock_fee_sweep, stock_opener, stock_position
from core.db.types import hex_of


@dataclass(frozen=True, slots=True)
class Betting:
    """Entries without the seed. `bets` and `distinct` leave the operator's wallets out; amounts in token units."""

    distinct: int
    bets: int
    operator_bets: int
    staked: int
    paid_to_bettors: int


@dataclass(frozen=True, slots=True)
class Sweep:
    tx: str
    amount: int
    at: int


@dataclass(frozen=True, slots=True)
class Refund:
    position_id: int
    owner: str
    amount: int
    tx: str | None


@dataclass(frozen=True, slots=True)
class Audit:
    at: int
    block: int
    compared: int
    mismatches: int


async def read_openers(connection: AsyncConnection) -> list[str]:
    """Every wallet that was ever allowed to list markets."""
    return [checksum(each) for each in await connection.scalars(select(stock_opener.c.opener))]


async def read_betting(connection: AsyncConnection, operators: Sequence[str]) -> Betting:
    ours = stock_position.c.owner.in_([bytes.fromhex(each[2:]) for each in operators])
    entry = stock_position.c.vintage > 0
    theirs = and_(entry, ~ours)
    total = func.coalesce
    row = (
        await connection.execute(
            select(
                func.count(stock_position.c.owner.distinct()).filter(theirs),
                func.count().filter(theirs),
                func.count().filter(and_(entry, ours)),
                total(func.sum(stock_position.c.offered.cast(Numeric)).filter(entry), 0),
                total(func.sum(stock_position.c.payout.cast(Numeric)).filter(theirs), 0),
            )
        )
    ).one()
    return Betting(int(row[0]), int(row[1]), int(row[2]), int(row[3]), int(row[4]))


async def read_sweeps(connection: AsyncConnection) -> list[Sweep]:
    """Every sweep of fees to the treasury, the newest first."""
    query = select(stock_fee_sweep).order_by(stock_fee_sweep.c.block_number.desc(), stock_fee_sweep.c.log_index.desc())
    return [Sweep(hex_of(row.tx), row.amount, row.at) for row in await connection.execute(query)]


async def read_refunds(connection: AsyncConnection, market_id: int) -> list[Refund]:
    """What a void market gave back, position by position in the order of entry."""
    query = (
        select(stock_position)
        .where(stock_position.c.market_id == market_id, stock_position.c.claimed)
        .order_by(stock_position.c.ordinal)
    )
    return [
        Refund(
            row.position_id,
            checksum(row.owner),
            row.payout + row.refund,
            None if row.payout_tx is None else hex_of(row.payout_tx),
        )
        for row in await connection.execute(query)
    ]


async def read_audit(connection: AsyncConnection, chain_id: int) -> Audit | None:
    at = func.extract("epoch", chain_audit.c.at).cast(BigInteger)
    query = (
        select(at, chain_audit.c.block_number, chain_audit.c.compared, chain_audit.c.mismatches)
        .where(chain_audit.c.chain_id == chain_id)
        .order_by(chain_audit.c.id.desc())
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Audit(int(row[0]), row[1], row[2], row[3])

"""`deliver`: pays winners and refunds, finalizes vintages, and sends rounding residue and fees to the treasury."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, func, select, text, tuple_

from core.db.schema.index_stock import DUSTY, OWING, stock_market, stock_position, stock_vintage
from core.stock.projection import market_of, may_be_owed, position_of, vintage_of
from core.stock.vested import Moment, Position, VestedMarket, Vintage, finished, residue, settlement
from keeper import payouts
from keeper.attempts import TransactionRequest
from keeper.payouts import RETRY, Payout
from keeper.run import JobRun

POKE_AFTER_SECONDS = 60
"""A shorter wait is not worth a transaction: the next entry finalizes a vintage anyway."""


@dataclass(frozen=True, slots=True)
class Holding:
    market: VestedMarket
    position: Position
    vintage: Vintage
    failed: int
    entered_at: int
    closed_at: int | None


def payouts_due(holdings: Iterable[Holding], now: Moment) -> list[Payout]:
    owed = []
    for holding in sorted(holdings, key=lambda each: (each.position.market_id, each.position.position_id)):
        market, position = holding.market, holding.position
        what = settlement(market, position, holding.vintage, now)
        if what.total:
            # The return of an unaccepted remainder has its own subject, so that it does not delay the settlement.
            word = "deliver" if market.settled else "return"
            has_refused_part = what.refund and not position.refunded
            owed.append(
                Payout(
                    subject=f"stock:{word}:{position.position_id}",
                    id=position.position_id,
                    market=f"market #{position.market_id}",
                    owner=position.owner,
                    amount=what.total,
                    failed=holding.failed,
                    # The remainder is due from the next block on.
                    due_at=holding.entered_at if has_refused_part or holding.closed_at is None else holding.closed_at,
                )
            )
    return owed


def why_poke(market: VestedMarket, entered_at: int, now: Moment) -> str | None:
    """Return why a market's pending vintage should be finalized now, or None if it should not. `entered_at` is the time
    of the market's last entry."""
    if market.vintage is None or market.settled or not finished(market, now):
        return None
    waited = now.timestamp - entered_at
    why = f"its vintage {market.vintage.number} has been waiting for {waited} s"
    return why if waited >= POKE_AFTER_SECONDS else None


def residue_due(market: VestedMarket) -> int:
    """Return the rounding residue that may go to the treasury now: 0 until every winning position has been paid."""
    if not market.settled or market.residue_claimed or market.unpaid_principal:
        return 0
    return residue(market) or 0


MAX_ROWS = 1_000
"""Positions read at once and paid in one run; the next run pays the rest."""

MARKETS, POSITIONS, VINTAGES = stock_market.c, stock_position.c, stock_vintage.c


async def deliver(run: JobRun) -> None:
    if run.index is None:
        run.report.skip("everything", "nothing of this chain is indexed yet")
        return
    indexed = Moment(run.index.l1_number, run.index.time)
    await _pay(run, indexed)
    await _poke(run, indexed)
    await _residue(run)
    settler = run.chain.contract("VestedMarkets")
    fees = int(str(await run.read(settler.call("feesAccrued"))))
    await payouts.sweep(run, fees, settler.call("sweepFees"))


async def _pay(run: JobRun, now: Moment) -> None:
    """Send every payout that is due and may be sent now. Read pages of positions until enough such payouts are found.
    Positions without a payout, or with a payout that must wait, then do not block the positions after them."""
    ready: list[Payout] = []
    owed_in_all: list[Payout] = []
    owing = [row.market_id for row in await run.rows(select(MARKETS.market_id).where(text(OWING)))]
    after = (-1, -1)
    while len(ready) < MAX_ROWS:
        page = await _holdings(run, owing, after)
        owed = payouts_due(page, now)
        owed_in_all += owed
        ready += await payouts.ready(run, owed)
        if len(page) < MAX_ROWS:
            break
        after = max((holding.failed, holding.position.position_id) for holding in page)
    payouts.measure(run, "positions", owed_in_all)
    settler = run.chain.contract("VestedMarkets")
    await payouts.send(run, "deliver", ready, lambda ids: settler.call("deliver", ids))


async def _holdings(run: JobRun, owing: Sequence[int], after: tuple[int, int]) -> list[Holding]:
    """Return a page of these markets' positions that may have a payout due, sorted by the number of refusals, then by
    id. `after` has the refusals and id of the last position on the previous page."""
    place = tuple_(POSITIONS.failed_deliveries, POSITIONS.position_id)
    query = (
        select(POSITIONS.position_id)
        .join(stock_market, MARKETS.market_id == POSITIONS.market_id)
        .join(stock_vintage, and_(VINTAGES.market_id == POSITIONS.market_id, VINTAGES.vintage == POSITIONS.vintage))
        .where(POSITIONS.market_id.in_(owing), may_be_owed(), place > after)
        .order_by(POSITIONS.failed_deliveries, POSITIONS.position_id)
        .limit(MAX_ROWS)
    )
    ids = [row.position_id for row in await run.rows(query)]
    positions = await run.rows(select(stock_position).where(POSITIONS.position_id.in_(ids)))
    market_ids = {row.market_id for row in positions}
    markets = await run.rows(select(stock_market).where(MARKETS.market_id.in_(market_ids)))
    vintages = await run.rows(select(stock_vintage).where(VINTAGES.market_id.in_(market_ids)))
    by_id = {row.market_id: market_of(row) for row in markets}
    closed = {row.market_id: row.closed_at for row in markets}
    by_block = {(row.market_id, row.vintage): vintage_of(row) for row in vintages}
    return [
        Holding(
            market=by_id[row.market_id],
            position=position_of(row),
            vintage=by_block[row.market_id, row.vintage],
            failed=row.failed_deliveries,
            entered_at=row.entered_at,
            closed_at=closed[row.market_id],
        )
        for row in positions
    ]


async def _poke(run: JobRun, now: Moment) -> None:
    """Finalize vintages that have waited too long. Settling a market finalizes its pending vintage anyway."""
    entered = (
        select(func.max(POSITIONS.entered_at))
        .where(POSITIONS.market_id == MARKETS.market_id, POSITIONS.vintage == MARKETS.pending_vintage)
        .scalar_subquery()
    )
    query = select(stock_market, entered.label("last_entry")).where(
        MARKETS.pending_vintage.is_not(None), MARKETS.closed_tx.is_(None), MARKETS.final_time > run.now
    )
    settler = run.chain.contract("VestedMarkets")
    for row in await run.rows(query):
        reason = why_poke(market_of(row), row.last_entry, now)
        if reason is None:
            continue
        request = TransactionRequest(
            kind="poke",
            subjects=(f"stock:poke:{row.market_id}:{row.pending_vintage}",),
            target=f"{row.ticker or 'market'} #{row.market_id}",
            detail=reason,
            call=settler.call("finalizeVintage", row.market_id),
            priority=-5,
        )
        await run.submit(request, RETRY)


async def _residue(run: JobRun) -> None:
    settler = run.chain.contract("VestedMarkets")
    for row in await run.rows(select(stock_market).where(text(DUSTY))):
        amount = residue_due(market_of(row))
        if not amount:
            continue
        request = TransactionRequest(
            kind="residue",
            subjects=(f"stock:residue:{row.market_id}",),
            target=f"{row.ticker or 'market'} #{row.market_id}",
            detail=f"send {amount} units of rounding residue to the treasury",
            call=settler.call("claimResidue", row.market_id),
            priority=-10,
        )
        await run.submit(request, RETRY)

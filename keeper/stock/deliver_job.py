"""`deliver`: sends what is owed to its owners, finishes vintages, and brings dust and fees to the treasury."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, func, select, text, tuple_

from core.db.schema.index_stock import DUSTY, OWING, stock_market, stock_position, stock_vintage
from core.stock.projection import market_of, may_be_owed, position_of, vintage_of
from core.stock.vested import Moment
from keeper.errands import RetryWaits, Want, after_refusals, in_batches
from keeper.run import JobRun
from keeper.stock.delivering import DuePosition, Holding, dues, poke, residue_due

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=20.0, longest_seconds=3600.0)
MAX_ROWS = 1_000
"""Positions sent in one run, and read at once; the rest is for the next."""

MARKETS, POSITIONS, VINTAGES = stock_market.c, stock_position.c, stock_vintage.c


async def deliver(run: JobRun) -> None:
    if run.index is None:
        run.report.skip("everything", "the index has read nothing of this chain yet")
        return
    indexed = Moment(run.index.l1_number, run.index.time)
    await _pay(run, indexed)
    await _poke(run, indexed)
    await _residue(run)
    await _sweep(run)


async def _pay(run: JobRun, now: Moment) -> None:
    settler = run.chain.contract("VestedMarkets")
    for batch in in_batches(await _ready(run, now)):
        call = settler.call("deliver", [due.position_id for due in batch])
        markets = sorted({due.market_id for due in batch})
        want = Want(
            kind="deliver",
            subjects=tuple(due.subject for due in batch),
            target=f"{len(batch)} positions of market {', '.join(f'#{each}' for each in markets[:5])}",
            detail=f"send {sum(due.amount for due in batch)} units to their owners",
            call=call,
        )
        await run.ask(want, after_refusals(min(due.failed for due in batch), RETRY))


async def _ready(run: JobRun, now: Moment) -> list[DuePosition]:
    """What is owed and may be sent now, page by page. However many candidates are owed nothing or must wait (the token
    refuses their owner, an attempt is under way), they never hide those behind them."""
    ready: list[DuePosition] = []
    owed_in_all: list[DuePosition] = []
    owing = [row.market_id for row in await run.rows(select(MARKETS.market_id).where(text(OWING)))]
    after = (-1, -1)
    while len(ready) < MAX_ROWS:
        page = await _holdings(run, owing, after)
        owed = dues(page, now)
        owed_in_all += owed
        ready += await _free(run, owed)
        if len(page) < MAX_ROWS:
            break
        after = max((holding.failed, holding.position.position_id) for holding in page)
    run.measure_payouts("positions", owed_in_all)
    return ready


async def _free(run: JobRun, owed: list[DuePosition]) -> list[DuePosition]:
    """Those that need not wait; the others are told in the report."""
    waiting: dict[str, str | None] = {}
    for failed in {due.failed for due in owed}:
        subjects = [due.subject for due in owed if due.failed == failed]
        waiting |= await run.free(subjects, after_refusals(failed, RETRY))
    free: list[DuePosition] = []
    for due in owed:
        reason = waiting[due.subject]
        if reason is None:
            free.append(due)
        else:
            run.report.skip(f"position {due.position_id}", reason)
    return free


async def _holdings(run: JobRun, owing: Sequence[int], after: tuple[int, int]) -> list[Holding]:
    """Positions of these markets that may be owed something, in the order of how often the token refused them, then of
    their ids. `after` is where the page before ended."""
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
    """Open markets only: settling finalizes the pending vintage itself."""
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
        reason = poke(market_of(row), row.last_entry, now)
        if reason is None:
            continue
        call = settler.call("finalizeVintage", row.market_id)
        want = Want(
            kind="poke",
            subjects=(f"stock:poke:{row.market_id}:{row.pending_vintage}",),
            target=f"{row.ticker or 'market'} #{row.market_id}",
            detail=reason,
            call=call,
            priority=-5,
        )
        await run.ask(want, RETRY)


async def _residue(run: JobRun) -> None:
    settler = run.chain.contract("VestedMarkets")
    for row in await run.rows(select(stock_market).where(text(DUSTY))):
        amount = residue_due(market_of(row))
        if not amount:
            continue
        call = settler.call("claimResidue", row.market_id)
        want = Want(
            kind="residue",
            subjects=(f"stock:residue:{row.market_id}",),
            target=f"{row.ticker or 'market'} #{row.market_id}",
            detail=f"bring {amount} units of rounding dust to the treasury",
            call=call,
            priority=-10,
        )
        await run.ask(want, RETRY)


async def _sweep(run: JobRun) -> None:
    settler = run.chain.contract("VestedMarkets")
    fees = int(str(await run.read(settler.call("feesAccrued"))))
    await run.sweep(fees, settler.call("sweepFees"))

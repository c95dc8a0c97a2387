"""Reading one address's positions: a page of them, and the totals of all.

The database sums the totals, so that an address of a hundred thousand positions costs the API what one of ten does. The
query repeats `core.stock.vested` in SQL with the same roundings; a test holds the one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import literal, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from api.stock.facts import HeldPosition
from api.stock.rows import HELD, held_position
from core.db.schema.index import chain_cursor
from core.db.schema.index_stock import OWING, stock_market, stock_position
from core.stock.classic import BPS
from core.stock.projection import market_of
from core.stock.vested import DOWN, UP, Moment, S, as_of
from core.stock.vested_views import OwnerTotals

# Of markets that are settled and owe nothing, what was sent says all. `matched`: vintages that are finished and not
# matched on chain yet, as if they were. All quotients round down.
_TOTALS = text(f"""
WITH moving AS (
    SELECT * FROM stock_market WHERE closed_tx IS NULL
    UNION ALL SELECT * FROM stock_market WHERE closed_tx IS NOT NULL AND ({OWING})
), matched AS (
    SELECT * FROM unnest(
        CAST(:market_id AS bigint[]), CAST(:vintage AS bigint[]), CAST(:accepted_up AS numeric[]),
        CAST(:accepted_down AS numeric[]), CAST(:acc_up AS numeric[]), CAST(:acc_down AS numeric[])
    ) AS m (market_id, vintage, accepted_up, accepted_down, acc_up, acc_down)
), mine AS MATERIALIZED (
    SELECT p.*, m.fee_bps, m.voided, m.acc_up, m.acc_down, m.closed_tx IS NULL AS open, m.winner = p.outcome AS won
    FROM stock_position p
    JOIN moving m ON m.market_id = p.market_id AND m.feed IS NOT NULL AND m.strike_time IS NOT NULL
    WHERE p.owner = :owner
), held AS (
    SELECT p.*, CASE p.outcome WHEN {UP} THEN v.offered_up ELSE v.offered_down END AS demanded,
        CASE WHEN now.vintage = p.vintage THEN CASE p.outcome WHEN {UP} THEN now.accepted_up ELSE now.accepted_down END
            ELSE CASE p.outcome WHEN {UP} THEN v.accepted_up ELSE v.accepted_down END END AS taken,
        CASE p.outcome WHEN {UP} THEN coalesce(now.acc_up, p.acc_up) ELSE coalesce(now.acc_down, p.acc_down) END
            - CASE WHEN now.vintage = p.vintage THEN CASE p.outcome WHEN {UP} THEN now.acc_up ELSE now.acc_down END
                ELSE CASE p.outcome WHEN {UP} THEN v.entry_acc_up ELSE v.entry_acc_down END END AS grown
    FROM mine p
    JOIN stock_vintage v ON v.market_id = p.market_id AND v.vintage = p.vintage
    LEFT JOIN matched now ON now.market_id = p.market_id
), shared AS (
    SELECT *, CASE WHEN taken = demanded THEN offered
        ELSE div((offered_before + offered) * taken, demanded) - div(offered_before * taken, demanded) END AS accepted
    FROM held
), promised AS (
    SELECT *, CASE WHEN open OR won THEN div(accepted * ({S} + grown), {S}) END AS gross FROM shared
)
-- in the order of OwnerTotals
SELECT coalesce(sum(offered), 0) AS staked,
    coalesce(sum(gross) FILTER (WHERE open), 0) AS accrued,
    coalesce(sum(payout) FILTER (WHERE claimed), 0) AS paid,
    coalesce(sum(accepted), 0) AS accepted,
    coalesce(sum(
        CASE WHEN refunded THEN 0 ELSE offered - accepted END
        + CASE WHEN claimed THEN 0 WHEN voided THEN accepted
            WHEN won THEN gross - div(greatest(gross - accepted, 0) * fee_bps, {BPS}) ELSE 0 END
    ), 0) AS deliverable,
    count(*) FILTER (WHERE open) AS open
FROM promised
UNION ALL
SELECT coalesce(sum(p.offered), 0), 0, coalesce(sum(p.payout), 0), coalesce(sum(p.offered - p.refund), 0), 0, 0
FROM stock_position p
JOIN stock_market m ON m.market_id = p.market_id AND m.feed IS NOT NULL AND m.strike_time IS NOT NULL
WHERE p.owner = :owner AND p.market_id NOT IN (SELECT market_id FROM moving)
""")  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class OwnedPage:
    """A page of an address's positions, the newest first, and the totals of all it has, as of block `number`."""

    number: int
    positions: Sequence[HeldPosition]
    more: bool
    totals: OwnerTotals


async def read_owned(
    connection: AsyncConnection, chain_id: int, owner: bytes, limit: int, before: int | None, now: Moment
) -> OwnedPage | None:
    """Return what was entered before the position `before`; None when the address has no such position. Call it within
    one snapshot."""
    number = await connection.scalar(select(chain_cursor.c.number).where(chain_cursor.c.chain_id == chain_id))
    position = stock_position.c
    query = HELD.where(position.owner == owner).order_by(position.entered_block.desc(), position.position_id.desc())
    if before is not None:
        entered = await connection.scalar(
            select(position.entered_block).where(position.owner == owner, position.position_id == before)
        )
        if entered is None:
            return None
        query = query.where(
            tuple_(position.entered_block, position.position_id) < tuple_(*map(literal, (entered, before)))
        )
    rows = (await connection.execute(query.limit(limit + 1))).all()
    return OwnedPage(
        number or 0,
        tuple(held_position(row) for row in rows[:limit]),
        len(rows) > limit,
        await read_totals(connection, owner, now),
    )


async def read_totals(connection: AsyncConnection, owner: bytes, now: Moment) -> OwnerTotals:
    pending = select(stock_market).where(stock_market.c.pending_vintage.is_not(None))
    seen = [as_of(market_of(row), now) for row in await connection.execute(pending)]
    matched = [(market, vintage) for market, vintage in seen if vintage is not None and vintage.accepted is not None]
    columns: dict[str, object] = {
        "market_id": [market.terms.market_id for market, _ in matched],
        "vintage": [vintage.number for _, vintage in matched],
    }
    for side, name in ((UP, "up"), (DOWN, "down")):
        columns[f"accepted_{name}"] = [Decimal((vintage.accepted or (0, 0))[side]) for _, vintage in matched]
        columns[f"acc_{name}"] = [Decimal(market.books[side].acc) for market, _ in matched]
    parts = (await connection.execute(_TOTALS, {"owner": owner, **columns})).all()
    return OwnerTotals(*(int(sum(column)) for column in zip(*parts, strict=True)))

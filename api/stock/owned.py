"""The positions of one address: a page of them, and the totals of all. The indexer maintains the sums behind the
totals.

The query repeats `core.stock.vested` in SQL; a test compares the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, Field
from sqlalchemy import literal, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from api.problems import unavailable
from api.stock.bodies import OwnerTotalsBody
from api.stock.facts import HeldPosition
from api.stock.index import HELD, held_position
from core.db.schema.index import chain_cursor
from core.db.schema.index_stock import stock_market, stock_position
from core.stock.projection import ACCEPTED, market_of
from core.stock.vested import DOWN, UP, Moment, S, as_of

# The most positions in one response: enough for nearly every address, and a bound for clients that do not page.
POSITIONS_LISTED = 5_000


class OwnerQuery(BaseModel):
    owner: Annotated[str, Field(pattern=r"^0[xX][0-9a-fA-F]{40}$", description="An address, case-insensitive.")]
    limit: Annotated[int, Field(ge=1, le=POSITIONS_LISTED, description="The maximum number of positions.")] = (
        POSITIONS_LISTED
    )
    before: Annotated[
        int | None,
        Field(
            ge=1,
            le=2**63 - 1,
            description="Only positions entered before this one: `nextBefore` of the previous page.",
        ),
    ] = None


# `matched`: finished vintages that are not matched on chain yet, as if they were. All divisions round down;
# `accrued` is rounded once per market and side.
_TOTALS = text(f"""
WITH matched AS (
    SELECT * FROM unnest(
        CAST(:market_id AS bigint[]), CAST(:vintage AS bigint[]), CAST(:accepted_up AS numeric[]),
        CAST(:accepted_down AS numeric[]), CAST(:acc_up AS numeric[]), CAST(:acc_down AS numeric[])
    ) AS m (market_id, vintage, accepted_up, accepted_down, acc_up, acc_down)
), held AS (
    SELECT h.*, h.offered - h.pending - h.refused AS settled_in, now.vintage AS matching,
        CASE h.outcome WHEN {UP} THEN coalesce(now.acc_up, m.acc_up) ELSE coalesce(now.acc_down, m.acc_down) END AS acc,
        CASE h.outcome WHEN {UP} THEN m.pending_up ELSE m.pending_down END AS demanded,
        CASE h.outcome WHEN {UP} THEN now.accepted_up ELSE now.accepted_down END AS taken
    FROM stock_holding h
    LEFT JOIN stock_market m ON m.market_id = h.market_id
    LEFT JOIN matched now ON now.market_id = h.market_id
    WHERE h.owner = :owner
), seen AS (
    SELECT *, CASE WHEN matching IS NULL THEN 0 WHEN taken = demanded THEN pending ELSE (
        SELECT coalesce(sum({ACCEPTED}), 0)
        FROM stock_position p
        WHERE p.market_id = held.market_id AND p.vintage = matching AND p.owner = :owner AND p.outcome = held.outcome
    ) END AS joining FROM held
)
-- in the order in which read_totals unpacks them
SELECT coalesce(sum(offered), 0) AS staked,
    coalesce(sum(div(settled_in * ({S} + acc) - weight, {S}) + joining) FILTER (WHERE market_id > 0), 0) AS accrued,
    coalesce(sum(payout), 0) AS paid,
    coalesce(sum(settled_in + joining), 0) AS accepted,
    coalesce(sum(due - payout + refused - refund + CASE WHEN matching IS NULL THEN 0 ELSE pending - joining END), 0)
        AS deliverable,
    coalesce(sum(positions) FILTER (WHERE market_id > 0), 0) AS open
FROM seen
""")  # noqa: S608 - constants only

NO_TOTALS = OwnerTotalsBody(staked="0", accrued="0", paid="0", accepted="0", deliverable="0", open=0)


@dataclass(frozen=True, slots=True)
class OwnerPage:
    """A page of an address's positions, newest first, and the totals of all, as of the block `number`."""

    number: int
    positions: Sequence[HeldPosition]
    more: bool
    totals: OwnerTotalsBody


async def read_owner_page(
    connection: AsyncConnection, chain_id: int, owner: bytes, limit: int, before: int | None, now: Moment
) -> OwnerPage | None:
    """Return the address's positions entered before its position `before`. Return None if the address has no position
    `before`. Call this within one snapshot."""
    cursor = select(chain_cursor.c.number, chain_cursor.c.summed).where(chain_cursor.c.chain_id == chain_id)
    chain = (await connection.execute(cursor)).one_or_none()
    if chain is not None and not chain.summed:
        raise unavailable("Positions will be available when the indexer has read the chain's history; try again later.")
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
    return OwnerPage(
        0 if chain is None else chain.number,
        tuple(held_position(row) for row in rows[:limit]),
        len(rows) > limit,
        await read_totals(connection, owner, now),
    )


async def read_totals(connection: AsyncConnection, owner: bytes, now: Moment) -> OwnerTotalsBody:
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
    totals = (await connection.execute(_TOTALS, {"owner": owner, **columns})).one()
    staked, accrued, paid, accepted, deliverable, open_ones = map(int, totals)
    return OwnerTotalsBody(
        staked=str(staked),
        accrued=str(accrued),
        paid=str(paid),
        accepted=str(accepted),
        deliverable=str(deliverable),
        open=open_ones,
    )

"""Positions: those of a market, and the body of /api/positions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from api.http.body import Body
from api.stock.bodies.parts import Address, Amount, Hash, ReadAt, Seconds, Side, Stale


class SettlementBody(Body):
    gross: Amount
    fee: Amount
    net: Amount
    refund: Amount
    total: Annotated[Amount, Field(description="What of `net` and `refund` is not sent yet.")]
    deliverable: bool


class PositionBody(Body):
    id: str
    market_id: str
    owner: Address
    side: Side
    offered: Amount
    accepted: Annotated[Amount | None, Field(description="Null until its batch is matched.")]
    refused: Amount
    accrued: Annotated[Amount, Field(description="Paid if this side won now; only goes up.")]
    payout: Annotated[Amount | None, Field(description="After settlement: what it is paid, after the fee.")]
    classic_payout: Annotated[
        Amount | None, Field(description="After a resolution: what an ordinary pool would have paid.")
    ]
    seed: bool
    opener: bool
    finalized: bool
    refunded: bool
    claimed: bool
    vintage: Annotated[str, Field(description="Ethereum block of entry, 0 for the seed.")]
    settlement: SettlementBody
    paid_out: Amount | None
    entered_at: int | None
    entry_tx: Hash | None
    payout_tx: Hash | None


class OwnedPositionBody(PositionBody):
    question: str
    ticker: str
    href: str
    phase: Literal["opens", "live", "frozen", "resolved", "void"]
    status: str
    winner: Side | None
    final_time: Seconds
    open: bool


class OwnerTotalsBody(Body):
    staked: Amount
    accrued: Annotated[Amount, Field(description="Sum over open positions if their side wins now.")]
    paid: Annotated[Amount, Field(description="Settlement payouts already sent, after the fee.")]
    accepted: Amount
    deliverable: Annotated[Amount, Field(description="What claims and refunds would deliver now.")]
    open: int


class OwnerBody(Body):
    """One address's positions across markets, newest first: a page of them, and the totals of all."""

    owner: Address
    deployed: bool
    positions: list[OwnedPositionBody]
    totals: OwnerTotalsBody
    read_at: ReadAt
    stale: Stale
    next_before: Annotated[str | None, Field(description="`before` of the older positions; null on the last page.")]


POSITIONS_LISTED = 200


class OwnerQuery(BaseModel):
    owner: Annotated[
        str,
        Field(pattern=r"^0[xX][0-9a-fA-F]{40}$", description="An address, in any case."),
    ]
    limit: Annotated[int, Field(ge=1, le=500, description="At most so many positions.")] = POSITIONS_LISTED
    before: Annotated[
        int | None,
        Field(
            ge=1,
            le=2**63 - 1,
            description="Only what was entered before this position of the address: `nextBefore` of the page before.",
        ),
    ] = None

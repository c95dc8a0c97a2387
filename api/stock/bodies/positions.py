"""The bodies of positions, and of /api/positions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from api.operations import Body
from api.stock.bodies.parts import HexAddress, HexHash, PhaseName, ReadAt, Side, Stale, UnixSeconds, UsdgUnits


class SettlementBody(Body):
    gross: UsdgUnits
    fee: UsdgUnits
    net: UsdgUnits
    refund: UsdgUnits
    total: Annotated[UsdgUnits, Meta(description="The part of `net` and `refund` that is not sent yet.")]
    deliverable: bool


class PositionBody(Body):
    id: str
    market_id: str
    owner: Annotated[HexAddress, Meta(description="The current owner, who gets paid.")]
    entered_by: Annotated[HexAddress, Meta(description="The wallet that placed it, even if another owns it now.")]
    side: Side
    offered: UsdgUnits
    accepted: Annotated[UsdgUnits | None, Meta(description="Null until its batch is matched.")]
    refused: UsdgUnits
    accrued: Annotated[
        UsdgUnits, Meta(description="The payout if this side won now, before the fee on the profit; it only rises.")
    ]
    payout: Annotated[UsdgUnits | None, Meta(description="After settlement: the payout after the fee.")]
    classic_payout: Annotated[
        UsdgUnits | None, Meta(description="After a resolution: what an ordinary pool would have paid.")
    ]
    seed: bool
    opener: Annotated[bool, Meta(description="Placed by the wallet that listed the market.")]
    finalized: bool
    refunded: Annotated[
        bool, Meta(description="A refund was sent. The contract's flag is also set by a refund of zero.")
    ]
    claimed: Annotated[
        bool, Meta(description="A payout was sent. The contract's flag is also set by a payout of zero.")
    ]
    vintage: Annotated[str, Meta(description="Ethereum block of entry, 0 for the seed.")]
    settlement: SettlementBody
    paid_out: UsdgUnits | None
    entered_at: int | None
    entry_tx: HexHash | None
    payout_tx: HexHash | None


class OwnedPositionBody(PositionBody):
    question: str
    ticker: str
    href: str
    phase: PhaseName
    status: str
    winner: Side | None
    final_time: UnixSeconds
    open: bool


class OwnerTotalsBody(Body):
    staked: UsdgUnits
    accrued: Annotated[
        UsdgUnits,
        Meta(
            description="The payout of open positions if their side wins now, before the fee; rounded down once per "
            "market and side."
        ),
    ]
    paid: Annotated[UsdgUnits, Meta(description="Settlement payouts already sent, after the fee.")]
    accepted: UsdgUnits
    deliverable: Annotated[UsdgUnits, Meta(description="The amount that claims and refunds would deliver now.")]
    open: int


class OwnerBody(Body):
    """One address's positions across markets, newest first: a page of them, and the totals of all."""

    owner: HexAddress
    deployed: bool
    positions: list[OwnedPositionBody]
    totals: OwnerTotalsBody
    read_at: ReadAt
    stale: Stale
    next_before: Annotated[str | None, Meta(description="`before` for the next page; null on the last page.")]

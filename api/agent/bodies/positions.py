"""A wallet's positions and their totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from api.agent.bodies.parts import (
    ChainAnswer,
    ProjectedBet,
    Projection,
    average_cents,
    prices,
    project_position,
    times,
    usd,
)
from api.agent.facts import Holding, Links, ListedMarket, Stake
from api.operations import Body
from core.agent.fixed import WAD
from core.hexadecimal import hex_of
from core.iso import iso

PositionStatus = Literal["open", "resolved-won", "resolved-lost", "resolved-refunded"]


class AgentPosition(ProjectedBet):
    market_id: str
    slug: str
    question: str
    side: str
    outcome_label: str
    shares: Decimal
    staked_usd: Decimal
    avg_entry_cents: Decimal
    current_cents: Decimal
    pnl_usd: Decimal
    max_payout_usd: Decimal
    payout_usd: Decimal | None
    status: PositionStatus
    app_url: str
    proof_url: str | None
    filled_at: str | None
    payout_tx: Annotated[
        str | None, Meta(description="The transaction that paid it out or refunded it; null until then.")
    ]
    trade_id: str


class PositionSummary(Body):
    """The totals of all the wallet's positions, including those on other pages."""

    open_count: int
    resolved_count: int
    total_staked_usd: Decimal
    total_pnl_usd: Decimal


class PositionsBody(ChainAnswer):
    wallet: str
    count: int
    summary: PositionSummary
    positions: list[AgentPosition]
    next_cursor: Annotated[str | None, Meta(description="The cursor for older positions; null on the last page.")]


def position(market: ListedMarket, stake: Stake, links: Links) -> AgentPosition:
    status, projected, worth = _state(market, stake)
    if status == "resolved-won":
        now = usd(100 * 10**6)
    elif stake.outcome is None or status == "resolved-lost":
        now = usd(0)
    else:
        now = prices(market.book)[stake.outcome]
    side = None if stake.outcome is None else market.outcomes[stake.outcome]
    return AgentPosition(
        **times(market),
        **projected.fields(),
        market_id=market.id,
        slug=market.id,
        question=market.words.question,
        side="refund" if side is None else side.key,
        outcome_label="Refund" if side is None else side.label,
        shares=usd(stake.shares),
        staked_usd=usd(stake.amount),
        avg_entry_cents=average_cents(stake.net, stake.shares),
        current_cents=now,
        pnl_usd=usd(worth - stake.amount),
        max_payout_usd=usd(projected.payout),
        payout_usd=None if status == "open" else usd(worth),
        status=status,
        app_url=links.app(market),
        proof_url=None if side is None else links.proof(stake.bet_hash),
        filled_at=iso(stake.at),
        payout_tx=None if stake.paid_tx is None else hex_of(stake.paid_tx),
        trade_id=hex_of(stake.bet_hash),
    )


def _state(market: ListedMarket, stake: Stake) -> tuple[PositionStatus, Projection, int]:
    """Return a stake's status, its projected or actual payout, and its value in units."""
    if stake.outcome is None:  # a payment that came too late: refunded in full, never in the book
        return "resolved-refunded", Projection(stake.amount, 0), stake.amount
    projected = project_position(market, stake, stake.outcome)
    if market.ending is None:
        return "open", projected, projected.payout * market.book.price(stake.outcome) // WAD  # down
    worth = market.book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
    if market.refunded():
        return "resolved-refunded", Projection(worth, stake.shares), worth
    return "resolved-won" if stake.outcome == market.winner else "resolved-lost", projected, worth


def summary(holdings: Iterable[Holding], markets: Mapping[bytes, ListedMarket]) -> PositionSummary:
    """Return the totals of a wallet. Open positions on the same outcome are valued together and rounded down once."""
    live = over = staked = profit = 0
    for each in holdings:
        if each.market_key is None:
            worth = each.worth
            over += each.stakes
        elif (market := markets.get(each.market_key)) is not None:
            payout = market.book.projected(each.outcome, each.amount, each.shares)
            worth = payout * market.book.price(each.outcome) // WAD  # down
            live += each.stakes
        else:
            continue  # listed in a block read after the markets were
        staked += each.amount
        profit += worth - each.amount
    return PositionSummary(
        open_count=live, resolved_count=over, total_staked_usd=usd(staked), total_pnl_usd=usd(profit)
    )

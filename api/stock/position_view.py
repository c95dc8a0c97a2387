"""Builds the bodies of positions, in a market and in an owner's list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from api.stock import words
from api.stock.bodies.positions import OwnedPositionBody, PositionBody, SettlementBody
from api.stock.facts import SIDES, HeldPosition, ListedMarket
from core.stock.vested import Moment
from core.stock.vested_views import PositionView, position_view


def position_body(market: ListedMarket, entry: HeldPosition, now: Moment) -> PositionBody:
    return _body(market, entry, position_view(market.market, entry.position, entry.vintage, now))


def owner_bodies(
    positions: Sequence[HeldPosition], markets: Mapping[int, ListedMarket], now: Moment
) -> list[OwnedPositionBody]:
    """Build the bodies of an address's positions, leaving out those whose market is not known yet."""
    rows = []
    for entry in positions:
        market = markets.get(entry.position.market_id)
        if market is None:
            continue
        view = position_view(market.market, entry.position, entry.vintage, now)
        phase = market.phase(now.timestamp)
        winner = market.market.winner
        rows.append(
            OwnedPositionBody(
                **structs.asdict(_body(market, entry, view)),
                question=words.question(market),
                ticker=market.ticker,
                href=market.href,
                phase=phase.value,
                status=words.status(phase, winner),
                winner=None if winner is None else SIDES[winner],
                final_time=market.final_time,
                open=view.open,
            )
        )
    return rows


def _body(market: ListedMarket, entry: HeldPosition, view: PositionView) -> PositionBody:
    position, due = entry.position, view.settlement
    return PositionBody(
        id=str(position.position_id),
        market_id=str(position.market_id),
        owner=entry.owner,
        entered_by=entry.entered_by,
        side=SIDES[position.outcome],
        offered=str(view.offered),
        accepted=_text(view.accepted),
        refused=str(view.refused),
        accrued=str(view.accrued),
        payout=_text(view.payout),
        classic_payout=_text(view.classic_payout),
        seed=position.seed,
        opener=entry.entered_by == market.opener,
        finalized=view.accepted is not None,
        refunded=position.refunded,
        claimed=position.claimed,
        vintage=str(position.vintage),
        settlement=SettlementBody(
            gross=str(due.gross),
            fee=str(due.fee),
            net=str(due.net),
            refund=str(due.refund),
            total=str(due.total),
            deliverable=due.deliverable,
        ),
        paid_out=_text(view.paid_out),
        entered_at=entry.entered_at,
        entry_tx=entry.entry_tx,
        payout_tx=entry.payout_tx,
    )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)

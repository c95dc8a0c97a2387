"""Conversion of rows of `stock_market`, `stock_vintage` and `stock_position` to the values of `core.stock.vested`."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, and_, or_

from core.db.schema.index_stock import stock_market, stock_position, stock_vintage
from core.stock.vested import DOWN, UP, Book, Position, Terms, VestedMarket, Vintage

ACCEPTED = """CASE WHEN taken = demanded THEN p.offered ELSE div((p.offered_before + p.offered) * taken, demanded)
    - div(p.offered_before * taken, demanded) END"""
"""`accepted_of` in SQL for a position `p`: its part of the `taken` amount out of what its side `demanded` in the
vintage, NULL before that is matched. Both quotients round down, so the parts of a side add up to `taken` exactly."""


_TERMS = attrgetter(*Terms.__struct_fields__)
_STATE = attrgetter(*[each.name for each in fields(VestedMarket)][3:])  # after terms, books and the pending vintage
_POSITION = attrgetter(*[each.name for each in fields(Position)])


def market_of(row: Any) -> VestedMarket:
    pending = None
    if row.pending_vintage is not None:
        pending = Vintage(row.pending_vintage, (row.pending_up, row.pending_down))
    return VestedMarket(
        Terms(*_TERMS(row)),
        (Book(row.principal_up, row.acc_up), Book(row.principal_down, row.acc_down)),
        pending,
        *_STATE(row),
    )


def vintage_of(row: Any) -> Vintage:
    if row.accepted_up is None:
        return Vintage(row.vintage, (row.offered_up, row.offered_down))
    return Vintage(
        row.vintage,
        (row.offered_up, row.offered_down),
        (row.accepted_up, row.accepted_down),
        (row.entry_acc_up, row.entry_acc_down),
    )


def position_of(row: Any) -> Position:
    return Position(*_POSITION(row))


def may_be_owed() -> ColumnElement[bool]:
    """Return an SQL condition on the three joined tables for positions that may be owed something.

    These are unpaid positions on the winning side or in a void market. Positions without a refund are included too,
    unless their side of the vintage was accepted in full.
    """
    markets, vintages, positions = stock_market.c, stock_vintage.c, stock_position.c
    unpaid = and_(
        positions.claimed.is_(False),
        markets.closed_tx.is_not(None),
        or_(markets.voided, markets.winner == positions.outcome),
    )
    rationed = or_(
        vintages.accepted_up.is_(None),
        and_(positions.outcome == UP, vintages.accepted_up != vintages.offered_up),
        and_(positions.outcome == DOWN, vintages.accepted_down != vintages.offered_down),
    )
    return or_(unpaid, and_(positions.refunded.is_(False), positions.vintage != 0, rationed))

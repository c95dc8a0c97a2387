"""Money, prices and shares as exact JSON numbers. Divisions round down unless noted.

Cents have at most 4 decimals, shares and dollars 6, percentages 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from core.agent.book import Book
from core.agent.words import FEED_DECIMALS
from core.money import json_number, json_ratio_down, parts_of

CENT_DECIMALS = 4
PCT_DECIMALS = 4


def pct(numerator: int, denominator: int) -> Decimal:
    return json_ratio_down(100 * numerator, denominator, PCT_DECIMALS)


def percents(weights: Sequence[int]) -> list[Decimal]:
    """Return each weight's percentage; together they are exactly 100."""
    return [json_number(part, PCT_DECIMALS) for part in parts_of(100 * 10**PCT_DECIMALS, weights)]


def prices(book: Book) -> list[Decimal]:
    """Return each outcome's price in cents, which is also its percentage."""
    return percents([book.weight(at) for at in range(book.outcomes)])


def usd(units: int) -> Decimal:
    return json_number(units)


def feed_usd(value: int) -> Decimal:
    return json_number(value, FEED_DECIMALS)


def average_cents(net: int, shares: int) -> Decimal:
    """Return the average price of a share in cents, without the fee, rounded down."""
    return json_ratio_down(100 * net, shares, CENT_DECIMALS) if shares else usd(0)

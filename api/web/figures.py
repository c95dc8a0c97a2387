"""Numbers, times and names as people read them. Everything returned is escaped markup or plain text.

Amounts are integers of token units with 6 decimals and are never rounded: what is finer than a cent is shown smaller.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from markupsafe import Markup

from core.money import USD_DECIMALS, decimal_text

PRICE_DECIMALS = 8


def money(units: int | str | None) -> Markup:
    """1,234.56 with its finer decimals, if it has any, set apart: exact, and easy to read at a glance."""
    if units is None:
        return Markup('<span class="none">\N{EN DASH}</span>')
    value = int(units)
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    whole, fraction = divmod(abs(value), 10**USD_DECIMALS)
    digits = f"{fraction:0{USD_DECIMALS}d}"
    fine = digits[2:] if digits[2:] != "0000" else ""
    return Markup('<span class="amount">{}{}.{}<span class="fine">{}</span></span>').format(
        sign, f"{whole:,}", digits[:2], fine
    )


def plain(units: int | str) -> str:
    """An exact amount in running text: 12.5."""
    whole, _, fraction = decimal_text(int(units)).partition(".")
    grouped = f"{int(whole):,}"
    return f"{grouped}.{fraction}" if fraction else grouped


def dollars(value: Decimal | int | float | str | None) -> str:
    """A JSON amount in USD with two decimals at least, grouped."""
    if value is None:
        return "\N{EN DASH}"
    number = Decimal(str(value))
    places = max(2, -int(number.normalize().as_tuple().exponent)) if number != number.to_integral() else 2
    return f"{number:,.{min(places, 6)}f}"


def price(answer: int | str | None) -> Markup:
    """An oracle answer of 8 decimals as `money` writes amounts: 187.40 and, smaller, what is finer than a cent."""
    if answer is None:
        return Markup('<span class="none">\N{EN DASH}</span>')
    whole, _, fraction = decimal_text(int(answer), PRICE_DECIMALS, min_decimals=2).partition(".")
    return Markup('<span class="amount">{}.{}<span class="fine">{}</span></span>').format(
        f"{int(whole):,}", fraction[:2], fraction[2:]
    )


def clock(at: int | None) -> Markup:
    """A moment as <time>: 21 Nov 2026, 14:30 UTC."""
    if at is None:
        return Markup('<span class="none">\N{EN DASH}</span>')
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%-d %b %Y, %H:%M} UTC"
    )


def short_clock(at: int | None) -> Markup:
    """The same without the year, with seconds: for rows of recent events."""
    if at is None:
        return Markup('<span class="none">\N{EN DASH}</span>')
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}">{}</time>').format(f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%-d %b %H:%M:%S}")


def until(at: int, now: int) -> Markup:
    """How long it is until a moment by the chain's clock; a script keeps it counting."""
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time class="until" datetime="{}" data-until="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", at, span(at - now)
    )


def span(seconds: int) -> str:
    """2 d 4 h, 3 h 05 min, 12 min 30 s, 8 s; 0 s for what is past. The script `live.js` words it the same way."""
    left = max(0, seconds)
    days, hours, minutes = left // 86_400, left // 3_600 % 24, left // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left % 60:02d} s" if minutes else f"{left} s"


def iso_clock(text: str | None) -> Markup:
    """An ISO-8601 time of the API as <time>."""
    return clock(None if text is None else unix(text))


def unix(text: str) -> int:
    """Unix seconds of an ISO-8601 time."""
    return int(datetime.fromisoformat(text).timestamp())


def shortened(text: str, start: int = 6, end: int = 4) -> str:
    """0x1234...cdef."""
    return text if len(text) <= start + end + 1 else f"{text[:start]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"


def percent(part: int | str, whole: int | str) -> str:
    """A share with one decimal, rounded down."""
    total = int(whole)
    tenths = int(part) * 1000 // total if total else 0
    return f"{tenths // 10}.{tenths % 10}%"


def bps(value: int) -> str:
    return f"{decimal_text(value, 2)}%"


def ordinal(position_id: str) -> Markup:
    """A position's number within its market; its whole id, which holds the market's in the high half, as the title."""
    return Markup('<span title="position {}">#{}</span>').format(position_id, int(position_id) & 0xFFFF_FFFF)

"""Numbers, times and names as people read them. Everything returned is escaped markup or plain text.

Amounts are integers of token units with 6 decimals, never rounded: two decimals are shown, what is finer is in the
page and shown on demand. Times are written in UTC; the script `times.js` writes them in the reader's zone.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from markupsafe import Markup

from api.stock import words
from core.iso import utc_datetime
from core.money import USD_DECIMALS, decimal_text

# Where there is nothing to show.
NONE = Markup('<span class="none">\N{EN DASH}</span>')


def money(units: int | str | None) -> Markup:
    """1,234.56, with its finer decimals, if it has any, marked up to be shown on demand: never rounded away."""
    if units is None:
        return NONE
    value = int(units)
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    whole, fraction = divmod(abs(value), 10**USD_DECIMALS)
    digits = f"{fraction:0{USD_DECIMALS}d}"
    return _amount(f"{sign}{whole:,}", digits)


def plain(units: int | str) -> str:
    """An exact amount in running text: 12.5."""
    whole, _, fraction = decimal_text(int(units)).partition(".")
    grouped = f"{int(whole):,}"
    return f"{grouped}.{fraction}" if fraction else grouped


def signed(units: int) -> str:
    """+12.34: a change in plain text, with two decimals, its size rounded down."""
    cents = abs(units) * 100 // 10**USD_DECIMALS
    sign = "\N{MINUS SIGN}" if units < 0 else "+"
    return f"{sign}{cents // 100:,}.{cents % 100:02d}"


def dollars(value: Decimal | int | float | str | None) -> Markup:
    """A JSON amount in USD, as `money` writes amounts."""
    if value is None:
        return NONE
    number = Decimal(str(value))
    whole, _, digits = f"{abs(number):,.{USD_DECIMALS}f}".partition(".")
    sign = "\N{MINUS SIGN}" if number < 0 else ""
    return _amount(f"{sign}{whole}", digits)


def _amount(whole: str, digits: str) -> Markup:
    """Show two decimals; the rest appears on request, and the title has the exact amount."""
    fine = digits[2:].rstrip("0")
    if not fine:
        return Markup('<span class="amount">{}.{}</span>').format(whole, digits[:2])
    return Markup('<span class="amount more" title="{0}.{1}{2}">{0}.{1}<span class="fine">{2}</span></span>').format(
        whole, digits[:2], fine
    )


def price(answer: int | str | None) -> Markup:
    """An oracle answer of 8 decimals as `money` writes amounts: 187.40."""
    if answer is None:
        return NONE
    whole, _, fraction = words.price(int(answer)).partition(".")
    return _amount(f"{int(whole):,}", fraction)


def clock(at: int | None) -> Markup:
    """A moment: 21 Nov 2026, 14:30 UTC; with its seconds where they are not zero, as they decide."""
    if at is None:
        return NONE
    utc = utc_datetime(at)
    return Markup('<time datetime="{}" data-form="{}">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", "full" if at % 60 else "clock", moment(at)
    )


def moment(at: int) -> str:
    """A moment in UTC as plain text, for where no script can write it in the reader's zone."""
    form = "%-d %b %Y, %H:%M:%S UTC" if at % 60 else "%-d %b %Y, %H:%M UTC"
    return utc_datetime(at).strftime(form)


def short_clock(at: int | None) -> Markup:
    """The same without the year, with seconds: for rows of recent events."""
    if at is None:
        return NONE
    moment = utc_datetime(at)
    return Markup('<time datetime="{}" data-form="exact">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%-d %b, %H:%M:%S} UTC"
    )


def until(at: int, now: int, ahead: int = 0) -> Markup:
    """Render a countdown to a moment of the chain's clock; a script keeps it counting. `ahead`: by how many seconds the
    page's clock leads this chain's, if the page counts by another chain."""
    moment = utc_datetime(at)
    return Markup('<time class="until" datetime="{}" data-until="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", at + ahead, span(at - now)
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
    """A share with one decimal, rounded to the nearest, and a half to the even one: so two shares make 100.0%."""
    total = int(whole)
    tenths = round(Fraction(int(part) * 1000, total)) if total else 0
    return f"{tenths // 10}.{tenths % 10}%"


def bps(value: int) -> str:
    return f"{decimal_text(value, 2)}%"


def ordinal(position_id: str) -> Markup:
    """A position's number within its market; its whole id, which holds the market's in the high half, as the title."""
    return Markup('<span title="position {}">{}</span>').format(position_id, ordinal_text(position_id))


def ordinal_text(position_id: str) -> str:
    return f"#{int(position_id) & 0xFFFF_FFFF}"

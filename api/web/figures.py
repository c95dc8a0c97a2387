"""Formats of numbers, times and names for people, as escaped markup or plain text.

Amounts are token units with 6 decimals and are never rounded: two decimals are shown, and the others on demand. Times
are in UTC; `times.js` converts them to the reader's time zone.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from markupsafe import Markup

from api.stock import words
from core.iso import utc_datetime
from core.money import USD_DECIMALS, decimal_text

# Shown in place of a missing value.
NONE = Markup('<span class="none">\N{EN DASH}</span>')


def money(units: int | str | None) -> Markup:
    """Format token units like `1,234.56`."""
    if units is None:
        return NONE
    value = int(units)
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    whole, fraction = divmod(abs(value), 10**USD_DECIMALS)
    digits = f"{fraction:0{USD_DECIMALS}d}"
    return _amount(f"{sign}{whole:,}", digits)


def plain(units: int | str) -> str:
    """Format token units exactly, for running text, like `12.5`."""
    whole, _, fraction = decimal_text(int(units)).partition(".")
    grouped = f"{int(whole):,}"
    return f"{grouped}.{fraction}" if fraction else grouped


def signed(units: int) -> str:
    """Format a change like `+12.34`, rounded towards zero."""
    cents = abs(units) * 100 // 10**USD_DECIMALS
    sign = "\N{MINUS SIGN}" if units < 0 else "+"
    return f"{sign}{cents // 100:,}.{cents % 100:02d}"


def dollars(value: Decimal | int | float | str | None) -> Markup:
    """Format a JSON amount in USD as `money` formats units."""
    if value is None:
        return NONE
    number = Decimal(str(value))
    whole, _, digits = f"{abs(number):,.{USD_DECIMALS}f}".partition(".")
    sign = "\N{MINUS SIGN}" if number < 0 else ""
    return _amount(f"{sign}{whole}", digits)


def _amount(whole: str, digits: str) -> Markup:
    fine = digits[2:].rstrip("0")
    if not fine:
        return Markup('<span class="amount">{}.{}</span>').format(whole, digits[:2])
    return Markup('<span class="amount more" title="{0}.{1}{2}">{0}.{1}<span class="fine">{2}</span></span>').format(
        whole, digits[:2], fine
    )


def price(answer: int | str | None) -> Markup:
    """Format an oracle answer (8 decimals) like `187.40`."""
    if answer is None:
        return NONE
    whole, _, fraction = words.price(int(answer)).partition(".")
    return _amount(f"{int(whole):,}", fraction)


def clock(at: int | None) -> Markup:
    """Format a time like `21 Nov 2026, 14:30 UTC`. Seconds are shown unless they are zero."""
    if at is None:
        return NONE
    utc = utc_datetime(at)
    return Markup('<time datetime="{}" data-form="{}">{}</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", "full" if at % 60 else "clock", moment(at)
    )


def moment(at: int) -> str:
    """Format a time as `clock` does, for text that no script can convert to the reader's time zone."""
    form = "%-d %b %Y, %H:%M:%S UTC" if at % 60 else "%-d %b %Y, %H:%M UTC"
    return utc_datetime(at).strftime(form)


def short_clock(at: int | None) -> Markup:
    """Format a time with seconds but without the year."""
    if at is None:
        return NONE
    moment = utc_datetime(at)
    return Markup('<time datetime="{}" data-form="exact">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%-d %b, %H:%M:%S} UTC"
    )


def until(at: int, now: int, ahead: int = 0) -> Markup:
    """Render a countdown to `at`, a time by a chain's clock. A script keeps the countdown running. `ahead`: how many
    seconds the page's clock is ahead of this chain's clock, if the page follows another chain."""
    moment = utc_datetime(at)
    return Markup('<time class="until" datetime="{}" data-until="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", at + ahead, span(at - now)
    )


def span(seconds: int) -> str:
    """Format a duration like `2 d 4 h`, `3 h 05 min`, `12 min 30 s` or `8 s`. `span` in `live.js` does the same."""
    left = max(0, seconds)
    days, hours, minutes = left // 86_400, left // 3_600 % 24, left // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left % 60:02d} s" if minutes else f"{left} s"


def iso_clock(text: str | None) -> Markup:
    return clock(None if text is None else unix(text))


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def shortened(text: str, start: int = 6, end: int = 4) -> str:
    """Shorten a hash or an address to the form `0x1234…cdef`."""
    return text if len(text) <= start + end + 1 else f"{text[:start]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"


def percent(part: int | str, whole: int | str) -> str:
    """Format a share in percent, rounded half to even, so that two shares add up to 100.0%."""
    total = int(whole)
    tenths = round(Fraction(int(part) * 1000, total)) if total else 0
    return f"{tenths // 10}.{tenths % 10}%"


def bps(value: int) -> str:
    return f"{decimal_text(value, 2)}%"


def ordinal(position_id: str) -> Markup:
    """Format a position's number within its market."""
    return Markup('<span title="position {}">{}</span>').format(position_id, ordinal_text(position_id))


def ordinal_text(position_id: str) -> str:
    return f"#{int(position_id) & 0xFFFF_FFFF}"

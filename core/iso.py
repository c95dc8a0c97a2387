"""Times as bodies write them: ISO-8601 in UTC, whole seconds for a chain's clock, milliseconds of our own, microseconds
where they distinguish events; and as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: int) -> str:
    """Format a moment of the chain's clock."""
    return f"{_whole(seconds)}Z"


def iso_datetime(moment: datetime) -> str:
    """Format a moment of our own clock, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    return iso_datetime(datetime.now(UTC))


def iso_micros(micros: int) -> str:
    """Format microseconds since 1970, all digits: a mark to go on from."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_whole(seconds)}.{rest:06d}Z"


LAST_SECOND = 253_402_300_799
"""The last that a calendar of four digits a year has; a chain's times go beyond."""


def utc_datetime(seconds: int) -> datetime:
    """Return a moment in UTC to show; LAST_SECOND for what lies beyond it."""
    return datetime.fromtimestamp(min(seconds, LAST_SECOND), UTC)


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_text(when: datetime) -> str:
    """21 Nov 2026 14:30; with its seconds where they are not zero, as they decide."""
    seconds = f":{when.second:02}" if when.second else ""
    return f"{when.day} {MONTHS[when.month - 1]} {when.year} {when.hour:02}:{when.minute:02}{seconds}"


def _whole(seconds: int) -> str:
    # An answer has hundreds of times: this takes three fifths of what strftime does.
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")

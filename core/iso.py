"""Times as text: ISO-8601 in UTC for responses, and dates for people."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: int) -> str:
    """Format a chain time in Unix seconds."""
    return f"{_whole(seconds)}Z"


def iso_datetime(moment: datetime) -> str:
    """Format a time of our own clock, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    return iso_datetime(datetime.now(UTC))


def iso_micros(micros: int) -> str:
    """Format microseconds since 1970 with all digits, because the text serves as a cursor."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_whole(seconds)}.{rest:06d}Z"


LAST_SECOND = 253_402_300_799  # of the year 9999, the last that `datetime` can represent; chain times may be later


def utc_datetime(seconds: int) -> datetime:
    """Return a chain time as a UTC datetime, capped at LAST_SECOND."""
    return datetime.fromtimestamp(min(seconds, LAST_SECOND), UTC)


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_text(when: datetime) -> str:
    """Format a time like `21 Nov 2026 14:30`. Seconds are added unless they are zero."""
    seconds = f":{when.second:02}" if when.second else ""
    return f"{when.day} {MONTHS[when.month - 1]} {when.year} {when.hour:02}:{when.minute:02}{seconds}"


def _whole(seconds: int) -> str:
    # A response can hold hundreds of times; this takes three fifths of strftime's time.
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")

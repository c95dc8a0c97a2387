"""Times as the agent surface writes them: ISO-8601 in UTC, whole seconds for the chain's clock."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: int) -> str:
    """A moment of the chain's clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def iso_of(moment: datetime) -> str:
    """A moment of our own clock, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    return iso_of(datetime.now(UTC))

"""Times as the agent surface writes them: ISO-8601 in UTC, whole seconds for the chain's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from core.iso import iso, iso_day

__all__ = ["iso", "iso_day", "iso_of", "now_iso"]


def iso_of(moment: datetime) -> str:
    """A moment of our own clock, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    return iso_of(datetime.now(UTC))

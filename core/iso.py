"""Times as bodies write them: ISO-8601 in UTC, whole seconds for a chain's clock, milliseconds of our own."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: int) -> str:
    """A moment of the chain's clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_of(moment: datetime) -> str:
    """A moment of our own clock, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_iso() -> str:
    return iso_of(datetime.now(UTC))


def iso_millis(micros: int) -> str:
    """Microseconds since 1970, to the millisecond it is in: with 3 decimals, or none."""
    seconds, rest = divmod(micros // 1000, 1000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest:03d}Z" if rest else f"{whole}Z"


def iso_exact(micros: int) -> str:
    """Microseconds since 1970, all of them: a mark to go on from."""
    seconds, rest = divmod(micros, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"

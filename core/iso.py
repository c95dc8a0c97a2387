"""Times as bodies write them: ISO-8601 in UTC, whole seconds for a chain's clock."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: int) -> str:
    """A moment of the chain's clock."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def iso_micros(micros: int) -> str:
    """Microseconds since 1970, with as many decimals as needed: none, 3 or 6."""
    seconds, rest = divmod(micros, 1_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    if not rest:
        return f"{whole}Z"
    return f"{whole}.{rest // 1000:03d}Z" if rest % 1000 == 0 else f"{whole}.{rest:06d}Z"

"""The answer that a market is left alone for now, and how long one is whose readings look stale."""

from __future__ import annotations

from dataclasses import dataclass

STALE_PATIENCE_SECONDS = 15 * 60
"""A market without a usable reading is voided no earlier after it could have been settled: a feed that only looks dead
gets the time to print."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The answer that there is nothing to do now."""

    reason: str

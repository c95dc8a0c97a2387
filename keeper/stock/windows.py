"""The markets' windows that follow from New York's sessions: which daily and weekly ones are to be listed now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.contracts.statuses import Family
from core.stock.sessions import Session, weeks

MIN_LEAD_SECONDS = 60
"""A market listed later than this before its strike would strike before anybody saw it."""


@dataclass(frozen=True, slots=True)
class MarketWindow:
    """What a market compares: the reading at `strike` with the one at `final`."""

    family: Family
    strike: int
    final: int


@dataclass(frozen=True, slots=True)
class NotNow:
    """Why a family has no window to list now."""

    family: Family
    reason: str


def daily_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | NotNow:
    """The next session, open to close, once it is at most `lead` away."""
    coming = next((each for each in sessions if each.opens - now >= MIN_LEAD_SECONDS), None)
    return _listed_from(Family.DAILY, coming, coming, now, lead)


def weekly_window(sessions: Sequence[Session], now: int, lead: int) -> MarketWindow | NotNow:
    """The next week whose first bell has not rung: its first open to its last close."""
    for week in weeks(sessions):
        if week[0].opens - now >= MIN_LEAD_SECONDS:
            return _listed_from(Family.WEEKLY, week[0], week[-1], now, lead)
    return NotNow(Family.WEEKLY, "the calendar holds no week that is still to begin")


def _listed_from(
    family: Family, first: Session | None, last: Session | None, now: int, lead: int
) -> MarketWindow | NotNow:
    if first is None or last is None:
        return NotNow(family, "the calendar holds no session that is still to open")
    if first.opens - now > lead:
        opens, listed = said(first.opens), said(first.opens - lead)
        return NotNow(family, f"the next bell is at {opens}; it is listed from {listed} on")
    return MarketWindow(family, first.opens, last.closes)


def said(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")

"""New York trading sessions, and the market windows that follow from them.

Opens and closes come from exchange_calendars (XNYS): holidays, early closes and both changes of the clock are its
business, and nothing here knows an offset. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from typing import Any

MIN_LEAD_SECONDS = 60
"""A market listed later than this before its strike would strike before anybody saw it."""


class Family(IntEnum):
    """The lister's numbers."""

    DAILY = 0
    WEEKLY = 1
    DRILL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Session:
    """One trading day in New York: `day` is its date there."""

    day: date
    opens: int
    closes: int


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


def weeks(sessions: Sequence[Session]) -> list[list[Session]]:
    """Sessions by their ISO week in New York."""
    found: dict[tuple[int, int], list[Session]] = {}
    for each in sessions:
        year, week, _ = each.day.isocalendar()
        found.setdefault((year, week), []).append(each)
    return list(found.values())


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


# ---------------------------------------------------------------- the calendar


def sessions_around(now: int, *, back_days: int = 8, ahead_days: int = 16) -> tuple[Session, ...]:
    """The sessions of the weeks around `now`, every week whole. Slow the first time; use a thread."""
    today = datetime.fromtimestamp(now, UTC).date()
    start = today - timedelta(days=back_days)
    start -= timedelta(days=start.weekday())
    end = today + timedelta(days=ahead_days)
    end += timedelta(days=6 - end.weekday())
    years = sorted({start.year, end.year})
    return tuple(each for year in years for each in _sessions(year) if start <= each.day <= end)


@lru_cache(maxsize=4)
def _sessions(year: int) -> tuple[Session, ...]:
    """All sessions of one year."""
    # Imported here: it brings pandas along, which takes longer to load than everything else together.
    import exchange_calendars  # type: ignore[import-untyped]  # noqa: PLC0415

    calendar: Any = exchange_calendars.get_calendar("XNYS", start=f"{year - 1}-12-01", end=f"{year + 1}-01-31")
    return tuple(
        Session(label.date(), int(row["open"].timestamp()), int(row["close"].timestamp()))
        for label, row in calendar.schedule.iterrows()
        if label.year == year
    )

"""New York trading sessions: which days have one, when it opens and closes, and which make a week.

Opens and closes come from exchange_calendars (XNYS): holidays, early closes and both changes of the clock are its
business, and nothing here knows an offset. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")


@dataclass(frozen=True, slots=True)
class Session:
    """One trading day in New York: `day` is its date there."""

    day: date
    opens: int
    closes: int


@dataclass(frozen=True, slots=True)
class TradingDay:
    """A session within its week: `week_closes` is the close of the week's last, `opens_week` True on its first."""

    opens: int
    closes: int
    week_closes: int
    opens_week: bool


def weeks(sessions: Sequence[Session]) -> list[list[Session]]:
    """Sessions by their ISO week in New York."""
    by_week: dict[tuple[int, int], list[Session]] = {}
    for each in sessions:
        year, week, _ = each.day.isocalendar()
        by_week.setdefault((year, week), []).append(each)
    return list(by_week.values())


def trading_day(at: int) -> TradingDay | None:
    """The session of the New York day that `at` lies in; None on weekends and holidays. Slow the first time."""
    day = datetime.fromtimestamp(at, UTC).astimezone(NEW_YORK).date()
    for week in weeks(sessions_around(at)):
        for session in week:
            if session.day == day:
                return TradingDay(session.opens, session.closes, week[-1].closes, session is week[0])
    return None


def sessions_around(now: int) -> tuple[Session, ...]:
    """The sessions of the weeks around `now`, every week whole. Slow the first time; use a thread."""
    today = datetime.fromtimestamp(now, UTC).date()
    start = today - timedelta(days=8)
    start -= timedelta(days=start.weekday())
    end = today + timedelta(days=16)
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

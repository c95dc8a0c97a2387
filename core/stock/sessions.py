"""New York trading sessions and their weeks.

Holidays and early closes come from the package `holidays` (XNYS), offsets from the time zone. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import holidays

NEW_YORK = ZoneInfo("America/New_York")
OPENS, CLOSES, CLOSES_EARLY = time(9, 30), time(16), time(13)
SATURDAY = 5
HOLIDAYS = holidays.financial_holidays("XNYS")
HALF_DAYS = holidays.financial_holidays("XNYS", categories=holidays.HALF_DAY)


@dataclass(frozen=True, slots=True)
class Session:
    """A trading session; `day` is its date in New York."""

    day: date
    opens: int
    closes: int


@dataclass(frozen=True, slots=True)
class TradingDay:
    """A session and its place in the week. `week_closes` is the time of the week's last close; `opens_week` is True for
    the week's first session."""

    opens: int
    closes: int
    week_closes: int
    opens_week: bool


def weeks(sessions: Sequence[Session]) -> list[list[Session]]:
    """Group sessions by their ISO week in New York."""
    by_week: dict[tuple[int, int], list[Session]] = {}
    for each in sessions:
        year, week, _ = each.day.isocalendar()
        by_week.setdefault((year, week), []).append(each)
    return list(by_week.values())


def trading_day(at: int) -> TradingDay | None:
    """Return the session on the New York day of `at`, or None on weekends and holidays."""
    day = datetime.fromtimestamp(at, UTC).astimezone(NEW_YORK).date()
    for week in weeks(sessions_around(at)):
        for session in week:
            if session.day == day:
                return TradingDay(session.opens, session.closes, week[-1].closes, session is week[0])
    return None


def sessions_around(now: int) -> tuple[Session, ...]:
    today = datetime.fromtimestamp(now, UTC).date()
    start = today - timedelta(days=8)
    start -= timedelta(days=start.weekday())
    end = today + timedelta(days=16)
    end += timedelta(days=6 - end.weekday())
    years = sorted({start.year, end.year})
    return tuple(each for year in years for each in sessions_of(year) if start <= each.day <= end)


@lru_cache(maxsize=4)
def sessions_of(year: int) -> tuple[Session, ...]:
    days = (date(year, 1, 1) + timedelta(days=each) for each in range(366))
    return tuple(
        Session(day, _bell(day, OPENS), _bell(day, CLOSES_EARLY if day in HALF_DAYS else CLOSES))
        for day in days
        if day.year == year and day.weekday() < SATURDAY and day not in HOLIDAYS
    )


def _bell(day: date, at: time) -> int:
    return int(datetime.combine(day, at, NEW_YORK).timestamp())

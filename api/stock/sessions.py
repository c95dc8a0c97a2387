"""New York trading sessions: which day has one, when it opens and closes. Holidays and early closes included."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")


@dataclass(frozen=True, slots=True)
class Session:
    """Opening and closing in Unix seconds; `week_closes` is the close of the week's last session, and
    `opens_week` is True on the week's first."""

    opens: int
    closes: int
    week_closes: int
    opens_week: bool


async def session_of(at: int) -> Session | None:
    """The session of the New York day that `at` lies in; None on weekends and holidays."""
    return await asyncio.to_thread(_session, datetime.fromtimestamp(at, UTC).astimezone(NEW_YORK).date())


@cache
def _calendar() -> Any:
    # Slow to import and to build: only here, and in a thread.
    from exchange_calendars import get_calendar  # type: ignore[import-untyped]  # noqa: PLC0415

    return get_calendar("XNYS", start="2025-01-01", end=str(date.today() + timedelta(days=365)))


@cache
def _session(day: date) -> Session | None:
    calendar = _calendar()
    if not calendar.is_session(str(day)):
        return None
    monday = day - timedelta(days=day.weekday())
    week = calendar.sessions_in_range(str(monday), str(monday + timedelta(days=6)))
    return Session(
        opens=int(calendar.session_open(str(day)).timestamp()),
        closes=int(calendar.session_close(str(day)).timestamp()),
        week_closes=int(calendar.session_close(week[-1]).timestamp()),
        opens_week=week[0].date() == day,
    )

"""Which window each family lists, through holidays, early closes, both changes of the clock, and year's end."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from core.contracts.statuses import Family
from core.stock.sessions import sessions_around, sessions_of
from keeper.run import Skipped
from keeper.stock.opening import MarketWindow, daily_window, weekly_window

DAILY_LEAD, WEEKLY_LEAD = 18 * 3600, 72 * 3600


def at(text: str) -> int:
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC).timestamp())


def daily(now: str) -> MarketWindow | Skipped:
    return daily_window(sessions_around(at(now)), at(now), DAILY_LEAD)


def weekly(now: str) -> MarketWindow | Skipped:
    return weekly_window(sessions_around(at(now)), at(now), WEEKLY_LEAD)


@pytest.mark.parametrize(
    ("now", "strike", "final"),
    [
        # An ordinary day, from right after the close before it until a minute before the bell.
        ("2026-11-18 21:00", "2026-11-19 14:30", "2026-11-19 21:00"),
        ("2026-11-19 14:29", "2026-11-19 14:30", "2026-11-19 21:00"),
        # Within the session the next one is listed once it is near enough: not before.
        ("2026-11-19 20:31", "2026-11-20 14:30", "2026-11-20 21:00"),
        # Over a weekend.
        ("2026-11-22 20:31", "2026-11-23 14:30", "2026-11-23 21:00"),
        # The day after Thanksgiving closes at one.
        ("2026-11-26 22:00", "2026-11-27 14:30", "2026-11-27 18:00"),
        # Christmas Eve closes at one, too; Christmas is skipped altogether.
        ("2026-12-24 00:00", "2026-12-24 14:30", "2026-12-24 18:00"),
        ("2026-12-27 21:00", "2026-12-28 14:30", "2026-12-28 21:00"),
        # New Year's Day, a Friday: Thursday is followed by Monday of the next year.
        ("2027-01-03 21:00", "2027-01-04 14:30", "2027-01-04 21:00"),
        # The clock goes back on Sunday, 1 November 2026: 13:30 UTC on Friday, 14:30 UTC on Monday.
        ("2026-10-30 00:00", "2026-10-30 13:30", "2026-10-30 20:00"),
        ("2026-11-01 21:00", "2026-11-02 14:30", "2026-11-02 21:00"),
        # And forward on Sunday, 14 March 2027.
        ("2027-03-12 00:00", "2027-03-12 14:30", "2027-03-12 21:00"),
        ("2027-03-14 20:00", "2027-03-15 13:30", "2027-03-15 20:00"),
    ],
)
def test_the_daily_window_is_the_next_session(now: str, strike: str, final: str) -> None:
    assert daily(now) == MarketWindow(Family.DAILY, at(strike), at(final))


@pytest.mark.parametrize(
    "now",
    [
        "2026-11-20 21:00",  # Friday evening: Monday is too far
        "2026-11-22 20:29",  # a minute before it is near enough
        "2026-11-25 22:00",  # before Thanksgiving: Friday is too far
    ],
)
def test_no_daily_window_while_the_next_bell_is_far(now: str) -> None:
    found = daily(now)
    assert isinstance(found, Skipped)
    assert "the next session opens at" in found.reason


def test_a_bell_that_is_about_to_ring_is_left_for_the_next_one() -> None:
    sessions = sessions_around(at("2026-11-19 14:29"))
    found = daily_window(sessions, at("2026-11-19 14:29") + 1, DAILY_LEAD)
    assert isinstance(found, Skipped)
    assert "2026-11-20 14:30" in found.reason


@pytest.mark.parametrize(
    ("now", "strike", "final"),
    [
        # An ordinary week, over the weekend before it.
        ("2026-11-13 22:00", "2026-11-16 14:30", "2026-11-20 21:00"),
        ("2026-11-16 14:29", "2026-11-16 14:30", "2026-11-20 21:00"),
        # Thanksgiving's week ends at one on Friday.
        ("2026-11-21 12:00", "2026-11-23 14:30", "2026-11-27 18:00"),
        # Labor Day is a Monday: the week begins on Tuesday.
        ("2026-09-06 12:00", "2026-09-08 13:30", "2026-09-11 20:00"),
        # Independence Day falls on a Saturday and is kept on Friday: the week ends on Thursday.
        ("2026-06-28 12:00", "2026-06-29 13:30", "2026-07-02 20:00"),
        # Christmas on a Friday: the week ends at one on Christmas Eve.
        ("2026-12-20 12:00", "2026-12-21 14:30", "2026-12-24 18:00"),
        # The year ends within a week.
        ("2026-12-27 12:00", "2026-12-28 14:30", "2026-12-31 21:00"),
        ("2027-01-02 12:00", "2027-01-04 14:30", "2027-01-08 21:00"),
        # The weeks after both changes of the clock.
        ("2026-11-01 12:00", "2026-11-02 14:30", "2026-11-06 21:00"),
        ("2027-03-13 12:00", "2027-03-15 13:30", "2027-03-19 20:00"),
    ],
)
def test_the_weekly_window_is_the_first_open_to_the_last_close(now: str, strike: str, final: str) -> None:
    found = weekly(now)
    assert found == MarketWindow(Family.WEEKLY, at(strike), at(final))
    assert isinstance(found, MarketWindow)
    assert found.final - found.strike <= 8 * 86_400, "the lister takes no longer window"


@pytest.mark.parametrize("now", ["2026-11-16 14:30", "2026-11-18 12:00", "2026-11-20 14:00"])
def test_a_week_whose_first_bell_has_rung_is_not_listed(now: str) -> None:
    found = weekly(now)
    assert isinstance(found, Skipped)
    assert "2026-11-23 14:30" in found.reason


def test_sessions_come_in_whole_weeks_and_in_order() -> None:
    found = sessions_around(at("2026-12-30 12:00"))
    assert found[0].day.weekday() == 0
    assert list(found) == sorted(found, key=lambda each: each.opens)
    assert all(each.opens < each.closes for each in found)
    assert {each.day.year for each in found} == {2026, 2027}


@pytest.mark.parametrize(
    ("year", "sessions", "half_days"),
    [(2001, 248, 3), (2012, 250, 3), (2018, 251, 3), (2024, 252, 3), (2025, 250, 3), (2026, 251, 2), (2028, 251, 2)],
)
def test_a_year_has_as_many_sessions_as_the_exchange_held_or_announced(
    year: int, sessions: int, half_days: int
) -> None:
    found = sessions_of(year)
    assert (len(found), sum(each.closes - each.opens < 6 * 3600 for each in found)) == (sessions, half_days)


@pytest.mark.parametrize(
    "day",
    ["2001-09-11", "2001-09-14", "2012-10-29", "2012-10-30", "2018-12-05", "2025-01-09", "2026-06-19", "2027-12-24"],
)
def test_the_exchange_was_closed_on_days_of_mourning_storms_and_new_holidays(day: str) -> None:
    assert date.fromisoformat(day) not in {each.day for each in sessions_of(int(day[:4]))}

"""A board's page is reused between two reads only if nothing was recorded on it since."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.cup import board
from core.cup.board import ALL_TIME
from core.db.engine import connect

NOW = datetime(2026, 11, 23, tzinfo=UTC)
MANY = 1_000


def _wallet(number: int) -> str:
    return f"0x{number:040x}"


async def test_ranks_follow_what_is_recorded_between_two_reads(database_url: str) -> None:
    async with await connect(database_url, autocommit=True) as connection:
        await board.record(connection, {_wallet(n): 1_000 - n for n in range(MANY)}, NOW)
        first = await board.top(connection, ALL_TIME, 5)
        assert [first.rank(_wallet(n)) for n in range(MANY + 1)] == [*range(1, MANY + 1), None]
        assert first.total == MANY
        still = await board.top(connection, ALL_TIME, 5, first)
        assert still.places is first.places  # no row was read for them

        last = _wallet(MANY - 1)
        await board.record(connection, {last: 5_000, _wallet(MANY): -1}, NOW)
        after = await board.top(connection, ALL_TIME, 5, still)
        assert (after.entries[0].wallet, after.total) == (last, MANY + 1)
        assert [after.rank(each) for each in (last, _wallet(0), _wallet(MANY))] == [1, 2, MANY + 1]
        other = await board.top(connection, "2020-W01", 5, await board.top(connection, "2020-W01", 5))
        assert (other.entries, other.total, other.rank(last)) == ((), 0, None)


async def test_a_result_of_nothing_changes_no_rank(database_url: str) -> None:
    first, second, idle = (_wallet(MANY + n) for n in (1, 2, 3))
    monday = datetime(2027, 1, 4, tzinfo=UTC)
    async with await connect(database_url, autocommit=True) as connection:
        await board.record(connection, {first: 100}, monday)
        await board.record(connection, {second: 100}, monday + timedelta(days=1))
        before = await board.top(connection, "2027-W01", 5)
        for gains in ({first: 0}, {idle: 0}, {first: 0, idle: 0}):
            await board.record(connection, gains, monday + timedelta(days=2))
        for period in ("2027-W01", ALL_TIME):
            after = await board.top(connection, period, 5)
            assert after.rank(idle) is None, period
            assert after.rank(first) == (after.rank(second) or 0) - 1, period
        still = await board.top(connection, "2027-W01", 5, before)
        assert still.places is before.places  # nothing was recorded

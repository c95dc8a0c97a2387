"""Boards of realized profit and loss: all time, and each ISO week (UTC) by when it was realized.

The rows are kept up to date by whatever settles; the index holds them in the order of the board. The first entries are
an index read, and a rank is counted from a fence nearby rather than from the top.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from core.cup.ledger import Connection

ALL_TIME: Final = "all"
FENCE_EVERY: Final = 500
_WEEK: Final = re.compile(r"([0-9]{4})-W([0-9]{2})")


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A wallet on a board, with its score."""

    wallet: str
    score_cents: int
    is_agent: bool


Place = tuple[int, datetime, str]
"""Where a row stands: its debit, when it was reached, its wallet, as the index orders them."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A place of the board and its rank, kept every so many rows: to know a rank, count from the fence before it."""

    place: Place
    rank: int


@dataclass(frozen=True, slots=True)
class Board:
    """The best wallets of a period, and the fences by which any rank is found."""

    entries: tuple[BoardRow, ...]
    total: int
    fences: tuple[Fence, ...] = ()


def week_of(moment: datetime) -> str:
    year, week, _ = moment.astimezone(UTC).isocalendar()
    return f"{year:04d}-W{week:02d}"


def is_week(text: str) -> bool:
    """Whether it names an ISO week that exists, such as 2026-W47."""
    found = _WEEK.fullmatch(text)
    if not found:
        return False
    try:
        date.fromisocalendar(int(found[1]), int(found[2]), 1)
    except ValueError:
        return False
    return True


async def record(connection: Connection, gains: Mapping[str, int], at: datetime) -> None:
    """Adds what wallets realized (cents, losses negative) to both boards. The wallets must be locked.

    `reached_at` is when a wallet last realized anything: of two with the same score, the one that rested first leads.
    """
    if not gains:
        return
    for period in (ALL_TIME, week_of(at)):
        await connection.execute(
            "INSERT INTO cup_score AS s (period, wallet, debit_cents, reached_at) "
            "SELECT %s, w, -g, %s FROM unnest(%s::text[], %s::bigint[]) AS u(w, g) "
            "ON CONFLICT (period, wallet) DO UPDATE SET debit_cents = s.debit_cents + excluded.debit_cents, "
            "reached_at = GREATEST(s.reached_at, excluded.reached_at)",
            (period, at, list(gains), list(gains.values())),
        )


async def top(connection: Connection, period: str, limit: int) -> Board:
    """The first `limit` entries, how many there are, and fences to count ranks from."""
    cursor = await connection.execute(
        "SELECT s.wallet, -s.debit_cents, EXISTS (SELECT FROM cup_enrolment e WHERE e.wallet = s.wallet) "
        "FROM cup_score s WHERE s.period = %s ORDER BY s.debit_cents, s.reached_at, s.wallet LIMIT %s",
        (period, limit),
    )
    entries = tuple(BoardRow(*row) for row in await cursor.fetchall())
    cursor = await connection.execute(
        "SELECT debit_cents, reached_at, wallet, n FROM (SELECT debit_cents, reached_at, wallet, "
        "row_number() OVER (ORDER BY debit_cents, reached_at, wallet) AS n FROM cup_score WHERE period = %s) AS b "
        "WHERE n %% %s = 0",
        (period, FENCE_EVERY),
    )
    fences = tuple(Fence((debit, at, wallet), n) for debit, at, wallet, n in await cursor.fetchall())
    counted, last = (fences[-1].rank, fences[-1].place) if fences else (0, None)
    return Board(entries, counted + await _count(connection, period, last, None), fences)


async def rank(connection: Connection, period: str, wallet: str, board: Board) -> int | None:
    """From 1; None for a wallet that has realized nothing in the period. Counted from the fence before it, so it is as
    fresh as `board`, give or take what moved across that fence since."""
    cursor = await connection.execute(
        "SELECT debit_cents, reached_at FROM cup_score WHERE period = %s AND wallet = %s", (period, wallet)
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    place = (row[0], row[1], wallet)
    before = bisect_right(board.fences, place, key=lambda fence: fence.place)
    if before == 0:
        return 1 + await _count(connection, period, None, place)
    fence = board.fences[before - 1]
    if fence.place == place:
        return fence.rank
    return fence.rank + 1 + await _count(connection, period, fence.place, place)


async def _count(connection: Connection, period: str, after: Place | None, before: Place | None) -> int:
    """How many rows lie strictly between two places of a board."""
    query = "SELECT count(*) FROM cup_score WHERE period = %s"
    values: list[object] = [period]
    for place, sign in ((after, ">"), (before, "<")):
        if place is not None:
            query += f" AND (debit_cents, reached_at, wallet) {sign} (%s, %s, %s)"
            values += place
    cursor = await connection.execute(query.encode(), values)
    row = await cursor.fetchone()
    return int(row[0]) if row else 0

"""Boards of realized profit and loss: all time, and each ISO week (UTC) by when it was realized.

The rows are kept up to date by whatever settles; the index holds them in the order of the board. The first entries are
an index read, and a rank is counted from a fence nearby rather than from the top.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final

from core.cup.ledger import Connection

ALL_TIME: Final = "all"
FENCE_EVERY: Final = 50
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


_TOP: Final = Fence((-(2**63), datetime.min.replace(tzinfo=UTC), ""), 0)
_END: Final[Place] = (2**63 - 1, datetime.max.replace(tzinfo=UTC), "")
"""Before and after every row."""


@dataclass(frozen=True, slots=True)
class Board:
    """The best wallets of a period, and the fences by which any rank is found. `changes`: how often anything had been
    recorded in the period when it was read."""

    entries: tuple[BoardRow, ...]
    total: int
    fences: tuple[Fence, ...] = ()
    changes: int = 0


def week_of(moment: datetime) -> str:
    year, week, _ = moment.astimezone(UTC).isocalendar()
    return f"{year:04d}-W{week:02d}"


def is_week(text: str) -> bool:
    """Whether it names an ISO week that exists, such as 2026-W47."""
    week = _WEEK.fullmatch(text)
    if not week:
        return False
    try:
        date.fromisocalendar(int(week[1]), int(week[2]), 1)
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
        # In the same transaction: whoever sees the new number sees the scores.
        await connection.execute(
            "INSERT INTO cup_board AS b VALUES (%s, 1) ON CONFLICT (period) DO UPDATE SET changes = b.changes + 1",
            (period,),
        )


async def top(connection: Connection, period: str, limit: int, before: Board | None = None) -> Board:
    """The first `limit` entries, how many there are, and fences to count ranks from. `before`: the board as it was read
    last; the fences, for which every row is read, are its own as long as nothing was recorded since."""
    cursor = await connection.execute("SELECT changes FROM cup_board WHERE period = %s", (period,))
    row = await cursor.fetchone()
    changes = int(row[0]) if row else 0
    cursor = await connection.execute(
        "SELECT s.wallet, -s.debit_cents, EXISTS (SELECT FROM cup_enrolment e WHERE e.wallet = s.wallet) "
        "FROM cup_score s WHERE s.period = %s ORDER BY s.debit_cents, s.reached_at, s.wallet LIMIT %s",
        (period, limit),
    )
    entries = tuple(BoardRow(*row) for row in await cursor.fetchall())
    if before is not None and before.changes == changes:
        return replace(before, entries=entries)
    cursor = await connection.execute(
        "SELECT debit_cents, reached_at, wallet, n FROM (SELECT debit_cents, reached_at, wallet, "
        "row_number() OVER (ORDER BY debit_cents, reached_at, wallet) AS n FROM cup_score WHERE period = %s) AS b "
        "WHERE n %% %s = 0",
        (period, FENCE_EVERY),
    )
    fences = tuple(Fence((debit, at, wallet), n) for debit, at, wallet, n in await cursor.fetchall())
    last = fences[-1] if fences else _TOP
    (after,) = await _count(connection, period, [(last.place, _END)])
    return Board(entries, last.rank + after, fences, changes)


async def ranks(connection: Connection, period: str, wallets: Sequence[str], board: Board) -> dict[str, int]:
    """From 1, by wallet; a wallet that has realized nothing in the period has none. Counted from the fence before it,
    so a rank is as fresh as `board`, give or take what moved across that fence since."""
    cursor = await connection.execute(
        "SELECT debit_cents, reached_at, wallet FROM cup_score WHERE period = %s AND wallet = ANY(%s)",
        (period, list(wallets)),
    )
    by_wallet: dict[str, int] = {}
    places: list[Place] = []
    fences: list[Fence] = []
    for place in await cursor.fetchall():
        before = bisect_right(board.fences, place, key=lambda fence: fence.place)
        fence = board.fences[before - 1] if before else _TOP
        if fence.place == place:
            by_wallet[place[2]] = fence.rank
        else:
            places.append(place)
            fences.append(fence)
    between = await _count(
        connection, period, [(fence.place, place) for fence, place in zip(fences, places, strict=True)]
    )
    for fence, place, count in zip(fences, places, between, strict=True):
        by_wallet[place[2]] = fence.rank + 1 + count
    return by_wallet


async def _count(connection: Connection, period: str, between: Sequence[tuple[Place, Place]]) -> list[int]:
    """How many rows lie strictly between two places of a board, for each two."""
    if not between:
        return []
    columns = [list(column) for column in zip(*(after + before for after, before in between), strict=True)]
    cursor = await connection.execute(
        "SELECT (SELECT count(*) FROM cup_score s WHERE s.period = %s"
        " AND (s.debit_cents, s.reached_at, s.wallet) > (u.debit, u.at, u.wallet)"
        " AND (s.debit_cents, s.reached_at, s.wallet) < (u.end_debit, u.end_at, u.end_wallet)) "
        "FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::bigint[], %s::timestamptz[], %s::text[])"
        " WITH ORDINALITY AS u(debit, at, wallet, end_debit, end_at, end_wallet, n) ORDER BY u.n",
        (period, *columns),
    )
    return [count for (count,) in await cursor.fetchall()]

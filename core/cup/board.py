"""Leaderboards of realized profit and loss: all time and each ISO week (UTC), of all wallets or of enrolled agents.

Every settlement updates the rows. An index keeps the rows in the board's order, so the first entries are read from the
index. All ranks are read together, and are read again after each change.

The ledger pays every profit, but a board does not count every profit in full. Wallets are free, so a player could
otherwise win by letting many wallets lose to one. Losses count in full. A win in a pool (a paper market, or one of the
wheel's markets in a round) counts in full if at least SEASONED of the pool's losing wallets had traded or bet on a day
(UTC) before their first stake in the pool. Otherwise, the win counts only up to the wallet's own stake in the pool.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final

from core.cup import wheel
from core.cup.ledger import snapshot
from core.cup.wheel import SettledStake
from core.db.engine import Connection
from core.hexadecimal import bytes_of

ALL_TIME: Final = "all"
_WEEK: Final = re.compile(r"([0-9]{4})-W([0-9]{2})")
_ADDRESS: Final = 20
_PLACE: Final = _ADDRESS + 4


@dataclass(frozen=True, slots=True)
class BoardRow:
    wallet: str
    score_cents: int
    is_agent: bool


@dataclass(frozen=True, slots=True)
class Board:
    """A period's best wallets and all ranks.

    places: each wallet's address and its rank in four bytes, sorted by the addresses' bytes. At 24 bytes per wallet
    they fit in memory, so looking up a rank takes no query.
    changes: the number of updates to the period's rows.
    """

    entries: tuple[BoardRow, ...]
    places: bytes = b""
    changes: int = 0

    @property
    def total(self) -> int:
        return len(self.places) // _PLACE

    def rank(self, wallet: str) -> int | None:
        """Return the wallet's rank, counted from 1, or None if the wallet has realized nothing in the period."""
        key, places = bytes_of(wallet), self.places
        at = _PLACE * bisect_left(range(self.total), key, key=lambda n: places[n * _PLACE : n * _PLACE + _ADDRESS])
        if places[at : at + _ADDRESS] != key:
            return None
        return int.from_bytes(places[at + _ADDRESS : at + _PLACE])


def week_of(moment: datetime) -> str:
    year, week, _ = moment.astimezone(UTC).isocalendar()
    return f"{year:04d}-W{week:02d}"


def is_week(text: str) -> bool:
    """Return whether the text is a valid ISO week, such as 2026-W47."""
    week = _WEEK.fullmatch(text)
    if not week:
        return False
    try:
        date.fromisocalendar(int(week[1]), int(week[2]), 1)
    except ValueError:
        return False
    return True


async def record(connection: Connection, gains: Mapping[str, int], at: datetime) -> None:
    """Add realized gains (in cents, losses negative) to the all-time board and the week's board. The wallets must be
    locked.

    `reached_at` is when a wallet's score last changed. Of two equal scores, the one reached first ranks higher. A
    wallet that got back exactly its stake realized nothing.
    """
    gains = {wallet: cents for wallet, cents in gains.items() if cents}
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
        # In the same transaction, so that a reader who sees the new number also sees the scores.
        await connection.execute(
            "INSERT INTO cup_board AS b VALUES (%s, 1) ON CONFLICT (period) DO UPDATE SET changes = b.changes + 1",
            (period,),
        )


async def top(
    connection: Connection, period: str, limit: int, before: Board | None = None, *, agents: bool = False
) -> Board:
    """Read a period's board with its first `limit` entries.

    before: the board as last read. If nothing has changed, its places are reused, since reading them scans every row.
    agents: include only enrolled agents. They are few and may enroll at any moment, so their places are always read.
    """
    condition = "s.period = %s"
    if agents:
        before, condition = None, f"{condition} AND EXISTS (SELECT FROM cup_enrolment a WHERE a.wallet = s.wallet)"
    async with snapshot(connection):
        changes: int = await connection.fetch_value("SELECT changes FROM cup_board WHERE period = %s", (period,)) or 0
        best = (
            "SELECT s.wallet, -s.debit_cents, EXISTS (SELECT FROM cup_enrolment e WHERE e.wallet = s.wallet) "  # noqa: S608 - constants only
            f"FROM cup_score s WHERE {condition} ORDER BY s.debit_cents, s.reached_at, s.wallet LIMIT %s"
        )
        entries = tuple(BoardRow(*row) for row in await connection.fetch_all(best.encode(), (period, limit)))
        if before is not None and before.changes == changes:
            return replace(before, entries=entries)
        places = (
            "SELECT string_agg(address || int4send(rank), '' ORDER BY address) FROM (SELECT "  # noqa: S608 - constants only
            "decode(substr(wallet, 3), 'hex') AS address, "
            "row_number() OVER (ORDER BY debit_cents, reached_at, wallet)::int AS rank "
            f"FROM cup_score s WHERE {condition}) AS ranked"
        )
        cursor = await connection.execute(places.encode(), (period,), binary=True)
        row = await cursor.fetchone()
    return Board(entries, bytes(row[0]) if row and row[0] else b"", changes)


# ---------------------------------------------------------------- What counts


SEASONED: Final = 3
RULE: Final = (
    "The score is realized profit. What a wallet wins in a pool (a paper market, or one market of a roulette round) "
    f"counts up to its own stake there, and in full if at least {SEASONED} of the wallets that lost in that pool had "
    "traded or bet on an earlier day (UTC). Losses count in full."
)

# (staked, paid) in cents by wallet.
WagerPool = Mapping[str, tuple[int, int]]


def wheel_pools(results: Iterable[SettledStake]) -> list[WagerPool]:
    """Return a round's pools without the refunded ones."""
    pools: dict[str, dict[str, tuple[int, int]]] = {}
    for each in results:
        if each.status == "refunded":
            continue
        pool = pools.setdefault(wheel.MARKET_OF_KEY[each.stake.bet_key].id, {})
        staked, paid = pool.get(each.stake.wallet, (0, 0))
        pool[each.stake.wallet] = (staked + each.stake.cents, paid + each.paid_cents)
    return list(pools.values())


def score_changes(pools: Iterable[WagerPool], seasoned: Collection[str]) -> dict[str, int]:
    """Return each wallet's change in score, in cents. `seasoned` are the wallets that had traded or bet on an earlier
    day."""
    gains: dict[str, int] = {}
    for pool in pools:
        whole = sum(paid < staked and wallet in seasoned for wallet, (staked, paid) in pool.items()) >= SEASONED
        for wallet, (staked, paid) in pool.items():
            gain = paid - staked
            gains[wallet] = gains.get(wallet, 0) + (gain if whole else min(gain, staked))
    return gains


def day_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def find_seasoned(connection: Connection, pools: Iterable[WagerPool], first: Mapping[str, datetime]) -> set[str]:
    """Return losing wallets that had traded or bet on an earlier day. For each pool, find only as many as
    `score_changes` needs.

    A wallet may be in many of a round's 42 pools, so known results are not looked up again.

    first: when each wallet first staked in the market or round that is being settled.
    """
    veterans: set[str] = set()
    fresh: set[str] = set()
    for pool in pools:
        if all(paid <= 2 * staked for staked, paid in pool.values()):
            continue  # no gain exceeds its stake, so nothing is limited
        losers = {wallet for wallet, (staked, paid) in pool.items() if paid < staked}
        needed = SEASONED - len(losers & veterans)
        asked = sorted(losers - veterans - fresh)
        if needed <= 0 or not asked:
            continue
        known = await connection.fetch_all(
            "SELECT w FROM unnest(%s::text[], %s::timestamptz[]) AS u(w, day)"
            " WHERE EXISTS (SELECT FROM cup_trade t WHERE t.wallet = w AND t.at < day)"
            " OR (SELECT b.at FROM cup_bet b WHERE b.wallet = w ORDER BY b.round_no, b.at LIMIT 1) < day LIMIT %s",
            (asked, [day_of(first[wallet]) for wallet in asked], needed),
        )
        these = {wallet for (wallet,) in known}
        veterans |= these
        if len(these) < needed:  # so all of them were looked up
            fresh.update(asked)
    return veterans

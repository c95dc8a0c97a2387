"""The boards the tournament shows, and who stands where on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from cachetools import LRUCache
from msgspec import Raw

from api.cache import TimedValue
from api.cup import bodies
from core.cup import board
from core.cup.board import Board
from core.db.engine import ConnectionPool
from core.money import to_json

MAX_ENTRIES = 200
BOARD_SECONDS = 1.0
# A board older than the first is read again while it is still given; older than the second it is waited for.
BOARD_OLDEST_SECONDS = 4.0
# Each is kept with 24 bytes for every wallet on it.
MAX_WEEKS = 16

LeaderboardQuestion = tuple[str, bool]  # the period; whether of enrolled agents alone


@dataclass(frozen=True, slots=True)
class ShownBoard:
    """A board as it was read, and its entries as they were written for whoever asked for so many."""

    board: Board
    written: dict[int, Raw] = field(default_factory=dict)

    def first(self, limit: int) -> Raw:
        if limit not in self.written:
            self.written[limit] = Raw(to_json(bodies.board_entries(self.board, limit)))
        return self.written[limit]


class Boards:
    """Boards as last read, by period. That of all time is always kept; of the weeks that anybody played, the one
    asked for least lately is forgotten first. An empty one is read again for nearly nothing."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        # Every board that somebody waits for or that is kept.
        self._boards: WeakValueDictionary[LeaderboardQuestion, TimedValue[ShownBoard]] = WeakValueDictionary()
        self._whole = self._board((board.ALL_TIME, False))
        self._weeks: LRUCache[LeaderboardQuestion, TimedValue[ShownBoard]] = LRUCache(MAX_WEEKS)

    async def get(self, period: str, *, agents: bool = False) -> ShownBoard:
        asked = (period, agents)
        kept = self._boards.get(asked) or self._board(asked)
        shown = await kept.get()
        if kept is not self._whole and shown.board.total:
            self._weeks[asked] = kept
        return shown

    def _board(self, asked: LeaderboardQuestion) -> TimedValue[ShownBoard]:
        made: TimedValue[ShownBoard] = TimedValue(
            lambda: self._read(asked, made.value), BOARD_SECONDS, BOARD_OLDEST_SECONDS
        )
        self._boards[asked] = made
        return made

    async def _read(self, asked: LeaderboardQuestion, before: ShownBoard | None) -> ShownBoard:
        period, agents = asked
        last = None if before is None else before.board
        async with self._pool.connection() as connection:
            read = await board.top(connection, period, MAX_ENTRIES, last, agents=agents)
        return ShownBoard(read)

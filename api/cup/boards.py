"""A cache of the leaderboards."""

from __future__ import annotations

from dataclasses import dataclass, field

from cachetools import LRUCache
from msgspec import Raw

from api.caching import TimedValue
from api.cup import bodies
from core.cup import board
from core.cup.board import Board
from core.db.engine import ConnectionPool
from core.money import to_json

MAX_ENTRIES = 200
BOARD_SECONDS = 1.0
# A board older than BOARD_SECONDS is served while it is read again; one older than BOARD_OLDEST_SECONDS is not served.
BOARD_OLDEST_SECONDS = 4.0
# Each takes 24 bytes of memory per wallet on it.
MAX_BOARDS = 32

LeaderboardQuestion = tuple[str, bool]  # the period; whether only enrolled agents count


@dataclass(frozen=True, slots=True)
class ShownBoard:
    """A leaderboard. `written`: the JSON of its first entries, by the number of entries."""

    board: Board
    written: dict[int, Raw] = field(default_factory=dict)

    def first(self, limit: int) -> Raw:
        if limit not in self.written:
            self.written[limit] = Raw(to_json(bodies.board_entries(self.board, limit)))
        return self.written[limit]


class Boards:
    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._boards: LRUCache[LeaderboardQuestion, TimedValue[ShownBoard]] = LRUCache(MAX_BOARDS)

    async def get(self, period: str, *, agents: bool = False) -> ShownBoard:
        asked = (period, agents)
        kept = self._boards.get(asked)
        if kept is None:
            kept = self._boards[asked] = TimedValue(lambda: self._read(asked), BOARD_SECONDS, BOARD_OLDEST_SECONDS)
        return await kept.get()

    async def _read(self, asked: LeaderboardQuestion) -> ShownBoard:
        period, agents = asked
        kept = self._boards.get(asked)
        last = None if kept is None or kept.value is None else kept.value.board
        async with self._pool.connection() as connection:
            return ShownBoard(await board.top(connection, period, MAX_ENTRIES, last, agents=agents))

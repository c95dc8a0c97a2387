"""The boards the tournament shows, and who stands where on them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import orjson

from api.cup import render
from core.cup import board
from core.cup.board import Board
from core.db.engine import ConnectionPool

MAX_ENTRIES = 200
BOARD_SECONDS = 1.0
BOARD_OLDEST_SECONDS = 4.0
"""A board older than the first is read again while it is still given; older than the second it is waited for."""
MAX_PERIODS = 16
"""Each is kept with 24 bytes for every wallet on it."""


@dataclass(frozen=True, slots=True)
class ShownBoard:
    """A board as it was read at a moment, and its entries as they were written for whoever asked for so many."""

    read_at: float
    board: Board
    written: dict[int, orjson.Fragment] = field(default_factory=dict)

    def first(self, limit: int) -> orjson.Fragment:
        if limit not in self.written:
            self.written[limit] = orjson.Fragment(orjson.dumps(render.board_entries(self.board, limit)))
        return self.written[limit]


class Boards:
    """Boards as last read, by period. An old one is still given while it is read again, so that nobody waits for it;
    periods that nobody asks for are forgotten first."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._boards: dict[str, ShownBoard] = {}
        self._reading: dict[str, asyncio.Task[ShownBoard]] = {}

    async def get(self, period: str) -> ShownBoard:
        shown = self._boards.get(period)
        age = float("inf") if shown is None else time.monotonic() - shown.read_at
        if shown is not None and age < BOARD_SECONDS:
            return shown
        reading = self._reading.get(period)
        if reading is None:
            reading = self._reading[period] = asyncio.create_task(self._read(period))
            reading.add_done_callback(lambda task: self._done(period, task))
        if shown is not None and age < BOARD_OLDEST_SECONDS:
            return shown
        # Shielded: one client that goes away must not cancel it for the others.
        return await asyncio.shield(reading)

    async def _read(self, period: str) -> ShownBoard:
        shown = self._boards.get(period)
        async with self._pool.connection() as connection:
            read = await board.top(connection, period, MAX_ENTRIES, shown.board if shown else None)
        self._boards.pop(period, None)
        while len(self._boards) >= MAX_PERIODS:
            del self._boards[next(iter(self._boards))]
        shown = self._boards[period] = ShownBoard(time.monotonic(), read)
        return shown

    def _done(self, period: str, task: asyncio.Task[ShownBoard]) -> None:
        del self._reading[period]
        if not task.cancelled():
            task.exception()  # whoever waited has it

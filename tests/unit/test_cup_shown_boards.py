"""The boards of the tournament, as those who look at them share their reading."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.cup.boards import MAX_BOARDS, Boards
from core.cup import board
from core.cup.board import ALL_TIME, Board
from core.db.engine import ConnectionPool
from tests.waiting import PATIENCE


class SlowReads:
    """Stands for the reading of boards, which takes until `released` is set."""

    def __init__(self) -> None:
        self.played = {ALL_TIME}
        self.begun: Counter[str] = Counter()
        self.released = asyncio.Event()

    async def top(
        self, _connection: Any, period: str, _limit: int, _before: Board | None, *, agents: bool = False
    ) -> Board:
        assert not agents
        self.begun[period] += 1
        await self.released.wait()
        return Board((), bytes(24) if period in self.played else b"", 1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> SlowReads:
    reads = SlowReads()
    monkeypatch.setattr(board, "top", reads.top)
    return reads


@pytest.fixture
def shown() -> Boards:
    return Boards(cast(ConnectionPool, SimpleNamespace(connection=nullcontext)))


async def test_concurrent_requests_share_one_reading_of_a_board(reads: SlowReads, shown: Boards) -> None:
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(shown.get(ALL_TIME))
            for week in range(MAX_BOARDS - 1):
                tasks.create_task(shown.get(f"2026-W{week:02}"))
            await asyncio.sleep(0.01)
        assert set(reads.begun.values()) == {1}
        reads.released.set()


async def test_unused_boards_are_dropped(reads: SlowReads, shown: Boards) -> None:
    reads.released.set()
    for week in range(MAX_BOARDS + 1):
        await shown.get(ALL_TIME)
        await shown.get(f"2026-W{week:02}")
    assert reads.begun[ALL_TIME] == 1
    await shown.get("2026-W00")
    assert reads.begun["2026-W00"] == 2

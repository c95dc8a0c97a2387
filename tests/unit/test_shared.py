"""What is made once for all who want it within some seconds."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from api.http import shared as shared_module
from api.http.shared import Shared


class Source:
    """A source that counts how often it is asked, and fails as long as it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    async def ask(self) -> int:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(0.02)
        if self.fails:
            raise ConnectionError
        return number


async def test_a_failure_is_told_to_who_waited_and_to_nobody_after() -> None:
    source = Source()
    shared = Shared(source.ask, 60)
    source.fails = True
    assert all(
        isinstance(each, ConnectionError)
        for each in await asyncio.gather(*(shared.get() for _ in range(5)), return_exceptions=True)
    )
    source.fails = False
    assert await asyncio.gather(*(shared.get() for _ in range(5))) == [2] * 5


async def test_nobody_waits_while_the_last_one_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(shared_module, "time", SimpleNamespace(monotonic=lambda: now))
    source = Source()
    shared = Shared(source.ask, 1, 4)
    assert await asyncio.gather(shared.get(), shared.get()) == [1, 1]
    now += 0.9
    assert (await shared.get(), source.asked) == (1, 1)
    now += 1
    assert [await shared.get() for _ in range(5)] == [1] * 5
    await asyncio.sleep(0.1)
    assert (await shared.get(), source.asked) == (2, 2)
    now += 4
    assert (await shared.get(), source.asked) == (3, 3)


async def test_a_reading_is_as_old_as_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hangs answers with what was so when it was asked."""
    now, asked = 100.0, 0
    monkeypatch.setattr(shared_module, "time", SimpleNamespace(monotonic=lambda: now))

    async def hanging() -> int:
        nonlocal now, asked
        asked += 1
        now += 5
        return asked

    shared = Shared(hanging, 1)
    assert [await shared.get() for _ in range(2)] == [1, 2]


async def test_who_leaves_does_not_take_it_from_the_others() -> None:
    source = Source()
    shared = Shared(source.ask, 60)
    leaves, stays = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    leaves.cancel()
    assert await stays == 1
    with pytest.raises(asyncio.CancelledError):
        await leaves

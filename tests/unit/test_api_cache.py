"""Values kept for the next request: made once for all who ask, and forgotten within bounds."""

from __future__ import annotations

import asyncio
import itertools
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from api import caching
from api.caching import SizedCache, TimedValue, VersionedCache


class Source:
    """A source that counts how often it is asked, takes a moment, and fails while `fails` is set."""

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


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(caching, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_the_least_recently_used_goes_first_and_what_is_too_large_is_not_kept() -> None:
    kept: SizedCache[str, bytes] = SizedCache(100, len)
    for name in "abc":
        kept[name] = bytes(30)
    assert kept.get("a") is not None
    kept["d"] = bytes(30)
    assert sorted(kept) == ["a", "c", "d"]
    kept["c"] = bytes(101)  # and an older value of it is gone, too
    assert sorted(kept) == ["a", "d"]


async def test_a_value_is_made_once_a_version_and_shared_by_all_who_wait() -> None:
    source, now = Source(), 0
    values: VersionedCache[str, int] = VersionedCache(10)
    get = partial(values.get, "key", lambda: now, source.ask)
    assert await asyncio.gather(*(get() for _ in range(20))) == [1] * 20
    assert await get() == 1
    now = 1
    assert await get() == 2


@pytest.mark.parametrize("fails", [False, True])
async def test_a_caller_after_a_change_does_not_get_what_was_begun_before_it(fails: bool) -> None:
    """A payer who has the receipt finds the stake, even right after another request for it."""
    now, begun = 0, []

    async def make() -> int:
        seen = now
        begun.append(seen)
        await asyncio.sleep(0.02)
        if fails and seen == 0:
            raise ConnectionError
        return seen

    values: VersionedCache[str, int] = VersionedCache(10)
    before = asyncio.create_task(values.get("key", lambda: now, make))
    await asyncio.sleep(0.005)
    now = 1
    assert await asyncio.gather(*(values.get("key", lambda: now, make) for _ in range(5))) == [1] * 5
    assert begun == [0, 1]
    if fails:
        with pytest.raises(ConnectionError):
            await before
    else:
        assert await before == 0


async def test_a_value_that_is_too_large_is_made_again_and_takes_no_room() -> None:
    made = itertools.count()

    async def make(size: int) -> bytes:
        next(made)
        return bytes(size)

    values: VersionedCache[str, bytes] = VersionedCache(100, len)
    for size, key in ((30, "small"), (101, "large"), (101, "large"), (30, "small")):
        assert len(await values.get(key, lambda: 0, partial(make, size))) == size
    assert next(made) == 3


async def test_callers_get_the_old_value_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source = Clock(monkeypatch), Source()
    value = TimedValue(source.ask, 1, 4)
    assert await asyncio.gather(value.get(), value.get()) == [1, 1]
    clock.now += 0.9
    assert (await value.get(), source.asked) == (1, 1)
    clock.now += 1
    assert [await value.get() for _ in range(5)] == [1] * 5
    await asyncio.sleep(0.1)
    assert (await value.get(), source.asked) == (2, 2)
    clock.now += 4
    assert (await value.get(), source.asked) == (3, 3)


async def test_a_value_is_as_old_as_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that hangs answers with what was true when it was asked."""
    clock, asked = Clock(monkeypatch), itertools.count(1)

    async def hanging() -> int:
        clock.now += 5
        return next(asked)

    value = TimedValue(hanging, 1)
    assert [await value.get() for _ in range(2)] == [1, 2]


async def test_without_a_limit_a_value_is_made_once_here_in_a_thread() -> None:
    value = TimedValue(partial(asyncio.to_thread, threading.get_ident))
    first = await value.get()
    assert first != threading.get_ident()
    assert await value.get() == first


@pytest.mark.parametrize("kind", ["versioned", "timed"])
async def test_an_error_goes_to_those_who_waited_and_the_next_caller_tries_again(kind: str) -> None:
    source = Source()
    values: VersionedCache[str, int] = VersionedCache(10)
    get = partial(values.get, "key", lambda: 0, source.ask) if kind == "versioned" else TimedValue(source.ask, 60).get
    source.fails = True
    failed = await asyncio.gather(*(get() for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, ConnectionError) for each in failed)
    source.fails = False
    assert await asyncio.gather(*(get() for _ in range(5))) == [2] * 5


@pytest.mark.parametrize("kind", ["versioned", "timed"])
async def test_a_caller_who_leaves_does_not_take_the_value_from_the_others(kind: str) -> None:
    source = Source()
    values: VersionedCache[str, int] = VersionedCache(10)
    get = partial(values.get, "key", lambda: 0, source.ask) if kind == "versioned" else TimedValue(source.ask, 60).get
    leaves, stays = asyncio.create_task(get()), asyncio.create_task(get())
    await asyncio.sleep(0)
    leaves.cancel()
    assert await stays == 1
    with pytest.raises(asyncio.CancelledError):
        await leaves

"""A body is rendered once for all who wait for it, and again when what it is made of has changed."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from api.http.problem import Problem
from api.http.rendered import BodySlot

CACHE = "public, max-age=15"


async def test_a_slot_renders_once_for_all_who_wait_and_again_when_its_stamp_changes() -> None:
    stamp, rendered = itertools.count(), []
    now = next(stamp)

    async def render() -> bytes:
        rendered.append(now)
        await asyncio.sleep(0.01)
        return str(now).encode()

    slot = BodySlot(lambda: now, render, CACHE)
    first = await asyncio.gather(*(slot.get() for _ in range(20)))
    assert {each.body for each in first} == {b"0"}
    assert (await slot.get()) is first[0]
    assert rendered == [0]
    now = next(stamp)
    assert (await slot.get()).body == b"1"
    assert rendered == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
async def test_who_comes_after_a_change_does_not_get_what_was_begun_before_it(fails: bool) -> None:
    """A payer who has the receipt finds the stake, whoever asked just before."""
    now, begun = 0, []

    async def render() -> bytes:
        seen = now
        begun.append(seen)
        await asyncio.sleep(0.02)
        if fails and seen == 0:
            raise Problem(503, "unavailable", "not yet")
        return str(seen).encode()

    slot = BodySlot(lambda: now, render, CACHE)
    before = asyncio.create_task(slot.get())
    await asyncio.sleep(0.005)
    now = 1
    after = await asyncio.gather(*(slot.get() for _ in range(5)))
    assert {each.body for each in after} == {b"1"}
    assert begun == [0, 1]
    if fails:
        with pytest.raises(Problem):
            await before
    else:
        assert (await before).body == b"0"


async def test_a_client_that_leaves_does_not_end_the_rendering_for_others() -> None:
    async def render() -> bytes:
        await asyncio.sleep(0.02)
        return b"whole"

    slot = BodySlot(lambda: 1, render, CACHE)
    leaves = asyncio.create_task(slot.get())
    stays = asyncio.create_task(slot.get())
    await asyncio.sleep(0)
    leaves.cancel()
    assert (await stays).body == b"whole"
    with pytest.raises(asyncio.CancelledError):
        await leaves


async def test_a_rendering_that_fails_is_tried_again() -> None:
    tries = itertools.count()

    def render() -> bytes:
        if next(tries) == 0:
            raise Problem(503, "unavailable", "not yet")
        return b"now"

    slot = BodySlot(lambda: 1, render, CACHE)
    with pytest.raises(Problem):
        await slot.get()
    assert (await slot.get()).body == b"now"

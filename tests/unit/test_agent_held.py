"""Bodies that many ask for are made once, and no single one takes the room of all others."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aiohttp.test_utils import make_mocked_request

from api.agent.held import HELD_BYTES, OWN, HeldBodies
from tests.waiting import PATIENCE


async def test_all_who_ask_before_a_body_is_there_wait_for_the_same() -> None:
    held, made = HeldBodies(_index(), OWN), 0

    async def render() -> bytes:
        nonlocal made
        made += 1
        await asyncio.sleep(0.01)
        return b"{}"

    request = make_mocked_request("GET", "/positions")
    await asyncio.gather(*(held.answer(request, "one", render) for _ in range(20)))
    assert made == 1


async def test_who_leaves_takes_the_making_from_nobody() -> None:
    held, made, released = HeldBodies(_index(), OWN), 0, asyncio.Event()

    async def render() -> bytes:
        nonlocal made
        made += 1
        await released.wait()
        return b"{}"

    request = make_mocked_request("GET", "/positions")
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        leaves = tasks.create_task(held.answer(request, "one", render))
        tasks.create_task(held.answer(request, "one", render))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0.01)
        tasks.create_task(held.answer(request, "one", render))
        await asyncio.sleep(0.01)
        released.set()
    assert made == 1


async def test_a_body_as_large_as_all_the_room_takes_nobody_elses() -> None:
    held, made = HeldBodies(_index(), OWN), 0

    def render() -> bytes:
        nonlocal made
        made += 1
        return b"{}"

    request = make_mocked_request("GET", "/positions")
    for each in range(20):
        await held.answer(request, each, render)
    await held.answer(request, "large", lambda: b" " * HELD_BYTES)
    for each in range(20):
        await held.answer(request, each, render)
    assert made == 20


async def test_a_large_body_is_rendered_and_compressed_once_too() -> None:
    held, made = HeldBodies(_index(), OWN), 0

    def render() -> bytes:
        nonlocal made
        made += 1
        return b" " * HELD_BYTES

    request = make_mocked_request("GET", "/positions")
    for _ in range(3):
        await held.answer(request, "large", render)
    assert made == 1


def _index() -> Any:
    return SimpleNamespace(tick=1)

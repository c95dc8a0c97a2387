"""A value made when it is first asked for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from api.http.later import Later


async def test_it_is_made_once_and_off_the_loop() -> None:
    makers: list[int] = []

    def make() -> str:
        makers.append(threading.get_ident())
        time.sleep(0.05)
        return "made"

    later = Later(make)
    assert makers == []
    assert await asyncio.gather(later.get(), later.get(), later.get()) == ["made"] * 3
    assert await later.get() == "made"
    assert len(makers) == 1
    assert makers[0] != threading.get_ident()


async def test_what_failed_is_made_again() -> None:
    fails = [True]

    def make() -> int:
        if fails.pop():
            fails.append(False)
            raise ValueError("not yet")
        return 7

    later = Later(make)
    with pytest.raises(ValueError, match="not yet"):
        await later.get()
    assert await later.get() == 7

"""Waiting ends with the first true answer, or with what was waited for: tests/waiting.py."""

from __future__ import annotations

import re

import pytest

from tests.waiting import until, wait

ANSWERS = [None, "", "there"]


async def test_the_first_true_answer_is_given() -> None:
    plain, asynchronous, blocking = iter(ANSWERS), iter(ANSWERS), iter(ANSWERS)

    async def holds() -> str | None:
        return next(asynchronous)

    assert await until(lambda: next(plain), pause=0.0) == "there"
    assert await until(holds, pause=0.0) == "there"
    assert wait(lambda: next(blocking), pause=0.0) == "there"


async def test_what_was_waited_for_is_told() -> None:
    async def never() -> bool:
        return False

    seen: list[int] = []
    with pytest.raises(AssertionError, match=re.escape("waited 0 s for the payout")):
        await until(never, "the payout", 0.0, pause=0.0)
    with pytest.raises(AssertionError, match=re.escape("waited 0 s for the second, not [1]")):
        await until(lambda: seen.append(1), lambda: f"the second, not {seen[:1]}", 0.0, pause=0.0)
    with pytest.raises(AssertionError, match=re.escape("waited 0 s for it")):
        wait(lambda: None, seconds=0.0, pause=0.0)


async def test_what_a_condition_raises_ends_the_wait() -> None:
    def ended() -> bool:
        raise AssertionError("the daemon ended")

    with pytest.raises(AssertionError, match="the daemon ended"):
        await until(ended, "its answer")

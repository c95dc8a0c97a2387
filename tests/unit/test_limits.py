"""In-memory counters of rate limits: correctness and cost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from limits import parse

from api import limits
from api.limits import RateLimits, _InMemory
from api.problems import Problem

QUICK, SLOW = parse("5 per second"), parse("1 per minute")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    added = [0.0]
    began, began_monotonic = time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: began + added[0])
    monkeypatch.setattr(time, "monotonic", lambda: began_monotonic + added[0])
    return added


async def test_expired_entries_are_removed_together(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(*_: Any) -> Any:
        raise AssertionError("a thread for each caller is more work than their requests")

    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    rates = RateLimits("memory://")
    held = rates._storage
    assert isinstance(held, _InMemory)
    await rates.take(SLOW, "slow", "a", "Too many.")
    for number in range(300):
        await rates.take(QUICK, "quick", str(number), "Too many.")
    assert len(held.events) == 301

    clock[0] += limits.SWEEP_SECONDS + 1
    await rates.take(QUICK, "quick", "newest", "Too many.")
    assert sorted(key.rsplit("/", 4)[-4] for key in held.events) == ["a", "newest"]
    with pytest.raises(Problem) as refused:
        await rates.take(SLOW, "slow", "a", "Too many.")
    assert refused.value.status == 429

    clock[0] += 60
    await rates.take(SLOW, "slow", "a", "Too many.")


async def test_the_machines_own_programs_are_counted_only_where_a_specification_says_how_often(
    clock: list[float],
) -> None:
    """Behind a proxy that nobody trusts every visitor seems to be the machine."""
    rates = RateLimits("memory://")
    for _ in range(3):
        await rates.take_external(SLOW, "ours", "127.0.0.1", "Too many.")
    await rates.take_external(SLOW, "ours", "203.0.113.9", "Too many.")
    with pytest.raises(Problem, match="Too many"):
        await rates.take_external(SLOW, "ours", "203.0.113.9", "Too many.")
    await rates.take(SLOW, "theirs", "127.0.0.1", "Too many.")
    with pytest.raises(Problem, match="Too many"):
        await rates.take(SLOW, "theirs", "127.0.0.1", "Too many.")


async def test_only_the_window_of_a_busy_caller_is_kept(clock: list[float]) -> None:
    rates = RateLimits("memory://")
    held = rates._storage
    assert isinstance(held, _InMemory)
    for _ in range(50):
        await rates.take(QUICK, "quick", "busy", "Too many.")
        clock[0] += 0.3
    (entries,) = held.events.values()
    assert 4 <= len(entries) <= 8

"""A token bucket."""

from __future__ import annotations

import pytest

from api.followed_index import TokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def waits(bucket: TokenBucket, clock: Clock, times: int) -> list[float]:
    found = []
    for _ in range(times):
        found.append(bucket.pause())
        clock.now += found[-1]
    return found


def test_a_burst_and_then_a_steady_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(0.5, 4, clock)
    assert waits(bucket, clock, 7) == pytest.approx([0, 0, 0, 0.5, 0.5, 0.5, 0.5])


def test_the_bucket_does_not_overflow() -> None:
    clock = Clock()
    bucket = TokenBucket(0.5, 4, clock)
    waits(bucket, clock, 10)
    clock.now += 3_600
    assert waits(bucket, clock, 5) == pytest.approx([0, 0, 0, 0.5, 0.5])

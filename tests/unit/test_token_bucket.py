"""A token bucket."""

from __future__ import annotations

import pytest

from api.followed_index import TokenBucket


def test_a_burst_and_then_a_steady_rate_without_overflow() -> None:
    now = 1_000.0
    bucket = TokenBucket(0.5, 4, lambda: now)
    waits = []
    for number in range(12):
        if number == 7:
            now += 3_600  # a quiet hour refills the bucket once
        waits.append(bucket.pause())
        now += waits[-1]
    assert waits == pytest.approx([0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0.5, 0.5])

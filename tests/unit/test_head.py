"""How old the index's last block may be for bets to be taken."""

from __future__ import annotations

import pytest

from api.head import Head

NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (Head(9, NOW - 3, NOW - 2, newest_at=NOW - 3), None),
        (Head(9, NOW - 70, NOW - 10, newest_at=NOW - 70), None),  # a minute old when reported: not yet over
        (Head(9, NOW - 63, NOW - 1, newest_at=NOW - 63), "The chain has produced no block for a minute."),
        (Head(9, NOW - 63, NOW - 1), "The chain has produced no block for a minute."),
        (Head(9, NOW - 63, NOW - 1, lag=3, lag_seconds=60, newest_at=NOW - 3), None),
        (Head(9, NOW - 64, NOW - 1, lag=3, lag_seconds=61, newest_at=NOW - 3), "The indexer lags."),
        (Head(9, NOW - 500, NOW - 61, newest_at=NOW - 500), "The indexer lags."),
        (Head(9, NOW - 500, NOW, state="halted"), "The indexer stopped at blocks that contradict each other."),
    ],
)
def test_how_old_the_last_block_may_be(head: Head, why: str | None) -> None:
    assert head.why_late(NOW, blocks_are_regular=True) == why
    still = "The chain has produced no block for a minute."
    assert head.why_late(NOW, blocks_are_regular=False) == (None if why == still else why)

"""When a stock is witnessed: at the start and end of a pause, at strike and close, during a pause, and at a split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keeper.stock.witness import REPEAT_SECONDS, StockState, why_witness

NOW = 1_000_000
RUNNING = StockState(paused=False, multiplier=10**18, known_multiplier=10**18, last_pause=0, is_over=False)
PAUSED = replace(RUNNING, paused=True, last_pause=NOW - 60)


@pytest.mark.parametrize(
    ("state", "moments", "why"),
    [
        (RUNNING, [NOW], None),
        (replace(RUNNING, last_pause=NOW - 60, is_over=True), [NOW], None),
        (replace(RUNNING, last_pause=NOW - 60), [], "has resumed"),
        (replace(PAUSED, last_pause=0), [], "is paused"),
        (replace(PAUSED, is_over=True), [], "is paused"),
        (PAUSED, [NOW - 61, NOW - 60, NOW + 1], None),
        (PAUSED, [NOW - 59], "at a strike or a close"),
        (PAUSED, [NOW], "at a strike or a close"),
        (replace(PAUSED, last_pause=NOW - REPEAT_SECONDS + 1), [], None),
        (replace(PAUSED, last_pause=NOW - REPEAT_SECONDS), [], "still paused"),
        (replace(RUNNING, multiplier=4 * 10**18), [], "multiplier is 4000000000000000000"),
        (replace(RUNNING, multiplier=None), [], None),
    ],
)
def test_when_a_stock_is_witnessed(state: StockState, moments: list[int], why: str | None) -> None:
    said = why_witness(state, moments, NOW)
    assert said == why or (why is not None and said is not None and why in said)

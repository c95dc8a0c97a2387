"""The width of pages of history, and how many are fetched at once."""

from __future__ import annotations

from indexer.chain import RECHECK_BLOCKS, Recheck
from indexer.history import IN_FLIGHT, LOGS_PER_PAGE, THIN_IN_FLIGHT, WIDEST_BLOCKS, Width


def test_many_thin_pages_are_fetched_at_once_but_few_thick_ones() -> None:
    width = Width()
    width.succeeded(width.blocks, 3)
    assert width.in_flight == THIN_IN_FLIGHT > IN_FLIGHT
    width.succeeded(width.blocks, LOGS_PER_PAGE)
    assert width.in_flight == IN_FLIGHT


def test_after_a_refusal_fewer_blocks_are_fetched_at_once() -> None:
    width = Width()
    width.succeeded(width.blocks, 0)
    width.failed(width.blocks)
    assert width.in_flight == IN_FLIGHT


def test_thin_pages_grow_to_the_widest_and_no_further() -> None:
    width = Width()
    for _ in range(20):
        width.succeeded(width.blocks, 1)
    assert width.blocks == WIDEST_BLOCKS


def test_rechecked_pages_hold_no_more_logs_than_pages_of_a_backfill() -> None:
    """A dense chain's 2,000 blocks are hundreds of thousands of logs, which would be held at once."""
    recheck, logs_a_block = Recheck(), 100
    for _ in range(20):
        found = recheck.history(1_000_000, 1)
        assert found is not None
        first, last = found
        blocks = last - first + 1
        assert blocks * logs_a_block <= 2 * LOGS_PER_PAGE
        recheck.width.succeeded(blocks, blocks * logs_a_block)
        recheck.history_until = last


def test_history_with_few_logs_is_rechecked_by_thousands_of_blocks() -> None:
    recheck = Recheck()
    for _ in range(20):
        found = recheck.history(1_000_000, 1)
        assert found is not None
        recheck.width.succeeded(found[1] - found[0] + 1, 2)
        recheck.history_until = found[1]
    assert recheck.width.blocks == RECHECK_BLOCKS

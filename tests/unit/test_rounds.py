"""The mirror of the round finder against a scan of every round, and its corners; test_rounds_mirror holds what it
judges to the contracts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.contracts.statuses import PreviewStatus, RoundProblem, StockOutcome, StockReason
from core.feeds.rounds import (
    MAX_NUMBER,
    FeedHead,
    Round,
    RoundReading,
    in_effect_at,
    prove_in_effect_at,
    round_id,
    settlement,
)
from tests.support.depth import EXAMPLES
from tests.support.rounds import memory, run

Phases = list[list[int]]
"""Times of the rounds of each phase."""

phases_strategy = st.lists(st.lists(st.integers(1, 60), max_size=12).map(sorted), min_size=1, max_size=10)


def tape(phases: Phases) -> dict[int, Round]:
    return {
        round_id(p, n): Round(round_id(p, n), 100 * p + n, time)
        for p, times in enumerate(phases, 1)
        for n, time in enumerate(times, 1)
    }


def head(phases: Phases) -> FeedHead:
    return FeedHead(round_id(len(phases), len(phases[-1])))


@settings(max_examples=EXAMPLES, deadline=None)
@given(phases_strategy, st.integers(0, 70))
def test_finder_and_proof_equal_the_scan(phases: Phases, time: int) -> None:
    rounds = tape(phases)
    fits = [r for r in rounds.values() if r.updated_at <= time and r.id >> 64 > len(phases) - 8]
    want = max(fits, key=lambda r: r.id, default=None)
    reading = run(in_effect_at(head(phases), time, memory(rounds.get)))
    assert reading.round == want
    if want is None:
        assert reading.problem is (RoundProblem.TOO_MANY_PHASES if len(phases) > 8 else RoundProblem.NO_ROUND)
    proven = [
        wanted
        for p in range(len(phases) + 2)
        for n in range(14)
        if run(prove_in_effect_at(head(phases), wanted := round_id(p, n), time, memory(rounds.get))) is not None
    ]
    assert proven == ([] if want is None else [want.id])


@given(st.integers(1, 5000), st.integers(1, 50_010), st.integers(0, 6000))
def test_long_phases_take_few_reads_with_any_hint(length: int, time: int, hint: int) -> None:
    reads = 0

    def read(wanted: int) -> Round | None:
        nonlocal reads
        reads += 1
        number = wanted & (2**64 - 1)
        return Round(wanted, number, number * 10) if 1 <= number <= length else None

    reading = run(in_effect_at(FeedHead(round_id(3, hint)), time, memory(read)))
    want = min(time // 10, length)
    assert reading.round_id == (round_id(3, want) if want else 0)
    assert reads <= 32


def test_problems() -> None:
    nothing = memory(tape([[]]).get)
    assert run(in_effect_at(FeedHead(None, has_code=False), 5, nothing)) == RoundReading(None, RoundProblem.NO_FEED)
    assert run(in_effect_at(FeedHead(None), 5, nothing)) == RoundReading(None, RoundProblem.LATEST_UNREADABLE)
    assert run(in_effect_at(FeedHead(7), 5, nothing)) == RoundReading(None, RoundProblem.NO_PHASE)
    assert run(in_effect_at(FeedHead(1 << 80), 5, nothing)) == RoundReading(None, RoundProblem.NO_PHASE)
    assert run(prove_in_effect_at(FeedHead(None), round_id(1, 1), 5, memory(tape([[1]]).get))) is None


def test_numbers_end_below_the_last_that_fits() -> None:
    async def endless(wanted: int) -> Round:
        return Round(wanted, 1, 1)

    for hint in (1, 2**64 - 1):
        reading = run(in_effect_at(FeedHead(round_id(1, hint)), 5, endless))
        assert reading.round_id == round_id(1, MAX_NUMBER)
    assert run(prove_in_effect_at(FeedHead(round_id(1, 1)), round_id(1, 2**64 - 1), 5, endless)) is None


def test_what_settles_and_what_it_says() -> None:
    assert settlement(PreviewStatus.UP) == (StockOutcome.UP, StockReason.ROUNDS)
    assert settlement(PreviewStatus.DOWN) == (StockOutcome.DOWN, StockReason.ROUNDS)
    assert settlement(PreviewStatus.FLAT) == (StockOutcome.FLAT, StockReason.FLAT)
    assert settlement(PreviewStatus.STALE) == (StockOutcome.VOID, StockReason.STALE)
    assert settlement(PreviewStatus.PAUSED) == (StockOutcome.VOID, StockReason.PAUSED)
    assert settlement(PreviewStatus.BAD_ANSWER) == (StockOutcome.VOID, StockReason.BAD_ANSWER)
    assert settlement(PreviewStatus.NOT_READY) is None
    assert settlement(PreviewStatus.BAD_PROOF) is None

"""How an agent market ends, every kind of it, to the second; and what its stakes are owed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.mirror.rounds import Problem
from core.mirror.settlement import Book, Kind, Reading, Terms
from keeper.agent.paying import BATCH, IN_BOOK, OWED_BACK, RESOLVED, VOID, Due, Stake, dues, payments
from keeper.agent.settling import RESOLVE, Facts, Found, Settle, Wait, claim, decide_market
from keeper.agent.settling import VOID as VOID_CALL
from keeper.opinions import Opinions

OPENS, CLOSES, LAG = 1_000_000, 1_100_000, 600
DELAY = 72 * 3600
QUARTER = 15 * 60
THRESHOLD = Terms(Kind.THRESHOLD, OPENS, CLOSES, max_age=3600, target=100, lag=LAG, void_delay=DELAY)
EARLY = replace(THRESHOLD, early_resolvable=True)
RANGE = Terms(Kind.RANGE, OPENS, CLOSES, max_age=3600, bounds=(100, 200, 300), lag=LAG, void_delay=DELAY)
DIRECTION = Terms(Kind.DIRECTION, OPENS, CLOSES, max_age=3600, start_at=OPENS + 5000, lag=LAG, void_delay=DELAY)
AFTER = CLOSES + LAG + 1


def found(answer: int, updated_at: int = CLOSES - 10, round_id: int = 77) -> Found:
    return Found(Problem.OK, round_id, Reading(answer, updated_at))


def started(answer: int, updated_at: int = OPENS + 4990) -> Found:
    return found(answer, updated_at, 33)


NOTHING = Found(Problem.NO_ROUND)
DEAD = Found(Problem.LATEST_UNREADABLE)


@pytest.mark.parametrize(
    ("terms", "end", "start", "function", "said"),
    [
        (THRESHOLD, found(100), None, RESOLVE, "outcome 0"),
        (THRESHOLD, found(99), None, RESOLVE, "outcome 1"),
        (EARLY, found(99), None, RESOLVE, "outcome 1"),
        (EARLY, found(100), None, RESOLVE, "outcome 0"),
        (replace(EARLY, max_age=10**6), found(100, OPENS - 1), None, RESOLVE, "before it opened"),
        (RANGE, found(99), None, RESOLVE, "outcome 0"),
        (RANGE, found(100), None, RESOLVE, "outcome 1"),
        (RANGE, found(300), None, RESOLVE, "outcome 3"),
        (DIRECTION, found(11), started(10), RESOLVE, "outcome 0"),
        (DIRECTION, found(9), started(10), RESOLVE, "outcome 1"),
        (DIRECTION, found(10), started(10), RESOLVE, "the same"),  # flat: the contract voids it
        (THRESHOLD, found(0), None, VOID_CALL, "no value"),
        (THRESHOLD, found(-1), None, VOID_CALL, "no value"),
        (DIRECTION, found(10), started(0), VOID_CALL, "no value"),
    ],
)
def test_what_the_readings_decide(terms: Terms, end: Found, start: Found | None, function: str, said: str) -> None:
    decision = decide_market(Facts(terms, True, None, end, start), terms.settles_after + 1)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.round_id) == (function, 77)
    assert said in decision.why


@pytest.mark.parametrize("terms", [THRESHOLD, EARLY, RANGE, DIRECTION])
@pytest.mark.parametrize("seconds", [-1000, 0, LAG])
def test_nothing_is_decided_while_readings_may_come_in(terms: Terms, seconds: int) -> None:
    facts = Facts(terms, True, None, found(100), started(10), agreed=True)
    assert isinstance(decide_market(facts, CLOSES + seconds), Wait)


def test_a_settled_market_is_left_alone() -> None:
    assert isinstance(decide_market(Facts(THRESHOLD, False, 5, found(100)), AFTER), Wait)


@pytest.mark.parametrize("now", [OPENS + 1, CLOSES + 1, AFTER])
def test_a_reached_target_settles_at_any_time(now: int) -> None:
    decision = decide_market(Facts(EARLY, True, crossing=55), now)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.round_id) == (RESOLVE, 55)


@pytest.mark.parametrize(
    ("terms", "end", "start"),
    [
        (THRESHOLD, found(100, CLOSES - 3601), None),
        (THRESHOLD, NOTHING, None),
        (DIRECTION, found(10), started(9, OPENS + 5000 - 3601)),
        (DIRECTION, found(10), NOTHING),
    ],
)
@pytest.mark.parametrize(
    ("seconds", "agreed", "voids"),
    [(1, True, False), (QUARTER - 1, True, False), (QUARTER, False, False), (QUARTER, True, True)],
)
def test_a_missing_or_stale_reading_voids_late_and_twice_read(
    terms: Terms, end: Found, start: Found | None, seconds: int, agreed: bool, voids: bool
) -> None:
    facts = Facts(terms, True, None, end, start, agreed=agreed)
    decision = decide_market(facts, terms.settles_after + seconds)
    assert claim(facts) is not None
    if voids:
        assert isinstance(decision, Settle)
        assert decision.function == VOID_CALL
        assert decision.round_id == end.round_id  # 0 where there is none: the contract finds that itself
    else:
        assert isinstance(decision, Wait)
        assert decision.unproven


@pytest.mark.parametrize(
    ("opinions", "waited_long", "said"),
    [
        (Opinions(echoing=("a", "b")), False, None),
        (Opinions(echoing=("a",), silent=("b",)), False, None),
        (Opinions(echoing=("a",), contrary=("b",)), True, "yet not by b"),
        (Opinions(silent=("a", "b")), False, "no answer from a and b"),
        (Opinions(silent=("a", "b")), True, None),
    ],
)
def test_who_contradicts_stops_a_void_and_who_is_away_only_delays_it(
    opinions: Opinions, waited_long: bool, said: str | None
) -> None:
    facts = Facts(DIRECTION, True, None, found(10), NOTHING, agreed=True, opinions=opinions)
    after = DIRECTION.void_delay + 1 if waited_long else QUARTER
    decision = decide_market(facts, max(DIRECTION.closes_at, DIRECTION.settles_after) + after)
    assert isinstance(decision, Settle if said is None else Wait)
    if isinstance(decision, Wait):
        assert said is not None
        assert said in decision.reason
        assert decision.unproven
    # However many nodes agree now, one look is not two.
    assert isinstance(decide_market(replace(facts, agreed=False), DIRECTION.settles_after + QUARTER), Wait)


@pytest.mark.parametrize(
    ("end", "start"), [(DEAD, None), (found(10), DEAD), (Found(Problem.NO_FEED), None), (Found(Problem.NO_PHASE), None)]
)
def test_a_feed_that_does_not_answer_proves_nothing_until_the_timeout(end: Found, start: Found | None) -> None:
    facts = Facts(DIRECTION, True, None, end, start, agreed=True)
    assert claim(facts) is None
    assert isinstance(decide_market(facts, CLOSES + DELAY), Wait)
    decision = decide_market(facts, CLOSES + DELAY + 1)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.round_id) == (VOID_CALL, 0)


def test_a_good_reading_settles_even_after_the_timeout() -> None:
    decision = decide_market(Facts(THRESHOLD, True, None, found(100)), CLOSES + DELAY + 5)
    assert isinstance(decision, Settle)
    assert decision.function == RESOLVE


def test_two_reads_must_name_the_same_rounds() -> None:
    stale = Facts(THRESHOLD, True, None, found(100, CLOSES - 4000, 7))
    other = replace(stale, end=found(100, CLOSES - 4000, 8))
    assert claim(stale) != claim(other)
    assert claim(Facts(THRESHOLD, True, None, found(100))) is None


# ---------------------------------------------------------------- paying

BOOK = Book(10**9, 200, net=(98, 196), shares=(100, 300))


def stake(number: int, outcome: int | None, amount: int, shares: int, status: int = IN_BOOK, failed: int = 0) -> Stake:
    return Stake(number, status, outcome, amount, shares, failed)


STAKES = [
    stake(1, 0, 50, 40),
    stake(2, 0, 50, 60),
    stake(3, 1, 200, 300),
    stake(4, None, 7, 0, OWED_BACK),
    stake(5, 0, 9, 9, 3),
    stake(6, 0, 9, 9, 4),
]


@pytest.mark.parametrize(
    ("status", "winner", "owed"),
    [
        (1, None, {4: 7}),  # open: only what came too late
        (RESOLVED, 0, {1: 40 * 294 // 100, 2: 60 * 294 // 100, 4: 7}),
        (RESOLVED, 1, {3: 294, 4: 7}),
        (VOID, None, {1: 50, 2: 50, 3: 200, 4: 7}),
    ],
)
def test_what_stakes_are_owed(status: int, winner: int | None, owed: dict[int, int]) -> None:
    assert {due.stake_id: due.amount for due in dues(STAKES, BOOK, status, winner)} == owed


def test_everybody_is_given_back_when_nobody_won() -> None:
    book = Book(10**9, 200, net=(0, 196), shares=(0, 300))
    assert {due.stake_id: due.amount for due in dues(STAKES[2:4], book, RESOLVED, 0)} == {3: 200, 4: 7}


@pytest.mark.parametrize(("fresh", "failed", "sizes"), [(0, 0, []), (50, 1, [50, 1]), (101, 0, [50, 50, 1])])
def test_payments_of_fifty(fresh: int, failed: int, sizes: list[int]) -> None:
    ready = [Due(n, 1, 0) for n in range(fresh)] + [Due(1000 + n, 1, 3) for n in range(failed)]
    batches = payments(ready)
    assert [len(batch) for batch in batches] == sizes
    assert all(len(batch) <= BATCH for batch in batches)

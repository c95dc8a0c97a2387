"""How each kind of agent market ends, to the second, and the payouts due from it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from core.agent.book import Book, DecidingTerms
from core.contracts.statuses import AgentMarketStatus, MarketKind, RoundProblem, StakeStatus
from core.feeds.rounds import Round, RoundReading
from keeper.agent.pay import MIN_MISSING_UNITS, Counters, is_missing, payouts_due, unindexed_ids
from keeper.agent.resolve import RESOLVE, VOID, Facts, Settle, claim, decide_market
from keeper.settling import NodeQuorum, Wait

BEGINS, ENDS, LAG = 1_005_000, 1_100_000, 600
DELAY = 72 * 3600
QUARTER = 15 * 60
THRESHOLD = DecidingTerms(
    kind=MarketKind.THRESHOLD,
    target=100,
    bounds=(),
    early_resolvable=False,
    published=False,
    max_age=3600,
    start_at=0,
    ends_at=ENDS,
    early_from=0,
    settles_after=ENDS + LAG,
    voids_after=ENDS + LAG + DELAY,
)
EARLY = replace(THRESHOLD, early_resolvable=True, early_from=BEGINS)
RANGE = replace(THRESHOLD, kind=MarketKind.RANGE, target=0, bounds=(100, 200, 300))
DIRECTION = replace(THRESHOLD, kind=MarketKind.DIRECTION, target=0, start_at=BEGINS)
DISPUTABLE = replace(THRESHOLD, published=True, settles_after=ENDS + LAG + 3600, voids_after=ENDS + LAG + 3600 + DELAY)
AFTER = ENDS + LAG + 1


def read(answer: int, updated_at: int = ENDS - 10, round_id: int = 77) -> RoundReading:
    return RoundReading(Round(round_id, answer, updated_at), RoundProblem.OK)


def started(answer: int, updated_at: int = BEGINS - 10) -> RoundReading:
    return read(answer, updated_at, 33)


NOTHING = RoundReading(None, RoundProblem.NO_ROUND)
DEAD = RoundReading(None, RoundProblem.LATEST_UNREADABLE)
NO_FEED = RoundReading(None, RoundProblem.NO_FEED)
NO_PHASE = RoundReading(None, RoundProblem.NO_PHASE)


@pytest.mark.parametrize(
    ("terms", "end", "start", "function", "said"),
    [
        (THRESHOLD, read(100), None, RESOLVE, "outcome 0"),
        (THRESHOLD, read(99), None, RESOLVE, "outcome 1"),
        (EARLY, read(99), None, RESOLVE, "outcome 1"),
        (EARLY, read(100), None, RESOLVE, "outcome 0"),
        (replace(EARLY, max_age=10**6), read(100, BEGINS - 1), None, RESOLVE, "before its interval began"),
        (RANGE, read(99), None, RESOLVE, "outcome 0"),
        (RANGE, read(100), None, RESOLVE, "outcome 1"),
        (RANGE, read(300), None, RESOLVE, "outcome 3"),
        (DIRECTION, read(11), started(10), RESOLVE, "outcome 0"),
        (DIRECTION, read(9), started(10), RESOLVE, "outcome 1"),
        (DIRECTION, read(10), started(10), RESOLVE, "are equal"),  # flat: the contract voids it
        (THRESHOLD, read(0), None, VOID, "no value"),
        (THRESHOLD, read(-1), None, VOID, "no value"),
        (DIRECTION, read(10), started(0), VOID, "no value"),
    ],
)
def test_what_the_readings_decide(
    terms: DecidingTerms, end: RoundReading, start: RoundReading | None, function: str, said: str
) -> None:
    decision = decide_market(Facts(terms, True, end=end, start=start), terms.settles_after + 1)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.end_round) == (function, 77)
    assert decision.start_round == (33 if start is not None else 0)
    assert said in decision.why


@pytest.mark.parametrize("terms", [THRESHOLD, EARLY, RANGE, DIRECTION, DISPUTABLE])
@pytest.mark.parametrize("seconds", [-1000, 0, LAG])
def test_nothing_is_decided_while_readings_may_come_in(terms: DecidingTerms, seconds: int) -> None:
    facts = Facts(terms, True, end=read(100), start=started(10), agreed=True)
    assert isinstance(decide_market(facts, ENDS + seconds), Wait)


def test_a_settled_market_is_left_alone() -> None:
    assert isinstance(decide_market(Facts(THRESHOLD, False, True, 5, read(100)), AFTER), Wait)


@pytest.mark.parametrize("now", [BEGINS + 1, ENDS + 1, AFTER])
def test_a_reached_target_settles_at_any_time(now: int) -> None:
    decision = decide_market(Facts(EARLY, True, crossed=True), now)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.end_round, decision.start_round) == (RESOLVE, 0, 0)


@pytest.mark.parametrize(
    ("terms", "end", "start"),
    [
        (THRESHOLD, read(100, ENDS - 3601), None),
        (THRESHOLD, NOTHING, None),
        (DIRECTION, read(10), started(9, BEGINS - 3601)),
        (DIRECTION, read(10), NOTHING),
    ],
)
@pytest.mark.parametrize(
    ("seconds", "agreed", "voids"),
    [(1, True, False), (QUARTER - 1, True, False), (QUARTER, False, False), (QUARTER, True, True)],
)
def test_a_missing_or_stale_reading_voids_late_and_twice_read(
    terms: DecidingTerms, end: RoundReading, start: RoundReading | None, seconds: int, agreed: bool, voids: bool
) -> None:
    facts = Facts(terms, True, end=end, start=start, agreed=agreed)
    decision = decide_market(facts, terms.settles_after + seconds)
    assert claim(facts) is not None
    if voids:
        assert isinstance(decision, Settle)
        assert decision.function == VOID
        assert decision.end_round == end.round_id  # 0 where there is none: the contract finds that itself
    else:
        assert isinstance(decision, Wait)


@pytest.mark.parametrize(
    ("quorum", "waited_long", "said"),
    [
        (NodeQuorum(agreeing=("a", "b")), False, None),
        (NodeQuorum(agreeing=("a",), silent=("b",)), False, None),
        (NodeQuorum(agreeing=("a",), contradicting=("b",)), False, "but not according to b"),
        (NodeQuorum(silent=("a", "b")), False, "no response from a and b"),
        (NodeQuorum(silent=("a", "b")), True, None),
    ],
)
def test_a_contradicting_node_stops_a_void_and_a_silent_one_delays_it(
    quorum: NodeQuorum, waited_long: bool, said: str | None
) -> None:
    facts = Facts(DIRECTION, True, end=read(10), start=NOTHING, agreed=True, quorum=quorum)
    decision = decide_market(facts, DIRECTION.voids_after + 1 if waited_long else DIRECTION.settles_after + QUARTER)
    assert isinstance(decision, Settle if said is None else Wait)
    if isinstance(decision, Wait):
        assert said is not None
        assert said in decision.reason
    # However many nodes agree now, one look is not two.
    assert isinstance(decide_market(replace(facts, agreed=False), DIRECTION.settles_after + QUARTER), Wait)


@pytest.mark.parametrize(
    ("end", "start"),
    [(DEAD, None), (read(10), DEAD), (NO_FEED, None), (NO_PHASE, None)],
)
def test_a_feed_that_does_not_answer_proves_nothing_until_the_timeout(
    end: RoundReading, start: RoundReading | None
) -> None:
    facts = Facts(DIRECTION, True, end=end, start=start, agreed=True)
    assert claim(facts) is None
    assert isinstance(decide_market(facts, DIRECTION.voids_after), Wait)
    decision = decide_market(facts, DIRECTION.voids_after + 1)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.end_round, decision.start_round) == (VOID, 0, 0)


def test_after_the_timeout_a_market_is_void_with_any_readings() -> None:
    for end in (read(100), read(99), None):
        decision = decide_market(Facts(THRESHOLD, True, end=end), THRESHOLD.voids_after + 1)
        assert isinstance(decision, Settle)
        assert decision.function == VOID


def test_two_reads_must_name_the_same_rounds() -> None:
    stale = Facts(THRESHOLD, True, end=read(100, ENDS - 4000, 7))
    other = replace(stale, end=read(100, ENDS - 4000, 8))
    assert claim(stale) != claim(other)
    assert claim(Facts(THRESHOLD, True, end=read(100))) is None


def test_published_readings_can_be_disputed_during_the_window() -> None:
    lie = Facts(DISPUTABLE, True, end=read(100))
    waiting = decide_market(lie, DISPUTABLE.settles_after)
    assert isinstance(waiting, Wait)
    assert "dispute window" in waiting.reason
    late = decide_market(lie, DISPUTABLE.settles_after + 1)
    assert isinstance(late, Settle)
    for now in (BEGINS, ENDS + 1, DISPUTABLE.settles_after + 1):
        condemned = decide_market(replace(lie, condemned=True), now)
        assert condemned == Settle(VOID, 0, 0, "its feed is condemned")


# ---------------------------------------------------------------- paying

IN_BOOK, OWED_BACK = StakeStatus.IN_BOOK, StakeStatus.OWED_BACK
BOOK = Book((10, 10), 200, net=(98, 196), shares=(100, 300), excess=(10, 104))


def stake(number: int, outcome: int | None, amount: int, shares: int, status: int = IN_BOOK) -> Any:
    return SimpleNamespace(
        stake_id=number,
        wallet=b"a",
        status=status,
        outcome=outcome,
        amount=amount,
        shares=shares,
        failed_payouts=0,
        staked_at=0,
    )


def owed_of(stakes: list[Any], book: Book, status: int, winner: int | None) -> dict[int, int]:
    market = SimpleNamespace(slug="a", status=status, winner=winner, closed_at=0)
    return {due.id: due.amount for due in payouts_due(market, book, stakes)}


STAKES = [
    stake(1, 0, 50, 40),
    stake(2, 0, 50, 60),
    stake(3, 1, 200, 300),
    stake(4, None, 7, 0, OWED_BACK),
    stake(5, 0, 9, 9, StakeStatus.PAID),
    stake(6, 0, 9, 9, StakeStatus.REFUNDED),
]


@pytest.mark.parametrize(
    ("status", "winner", "owed"),
    [
        (AgentMarketStatus.OPEN, None, {4: 7}),  # only what came too late
        (AgentMarketStatus.RESOLVED, 0, {1: 40 * 294 // 100, 2: 60 * 294 // 100, 4: 7}),
        # Fewer dollars than shares: the stake less its fee, and what its excess takes of the losers' money.
        (AgentMarketStatus.RESOLVED, 1, {3: 196 + 104 * 98 // 104, 4: 7}),
        (AgentMarketStatus.VOID, None, {1: 50, 2: 50, 3: 200, 4: 7}),
    ],
)
def test_what_stakes_are_owed(status: int, winner: int | None, owed: dict[int, int]) -> None:
    assert owed_of(STAKES, BOOK, status, winner) == owed


@pytest.mark.parametrize("winner", [0, 1])
def test_all_stakes_are_refunded_when_no_one_won_or_no_one_lost(winner: int) -> None:
    book = Book((10, 10), 200, net=(0, 196), shares=(0, 300), excess=(0, 104))
    assert owed_of(STAKES[2:4], book, AgentMarketStatus.RESOLVED, winner) == {
        3: 200,
        4: 7,
    }


def test_rounding_residue_is_not_missing_money() -> None:
    assert not is_missing(1_000_000 + MIN_MISSING_UNITS - 1, 1_000_000)
    assert is_missing(1_000_000 + MIN_MISSING_UNITS, 1_000_000)
    assert not is_missing(0, 5)


COUNTERS = Counters(status=AgentMarketStatus.RESOLVED, paid_out=10, paid_shares=20)
IDS = [2 << 32, 2 << 32 | 1, 2 << 32 | 2]


@pytest.mark.parametrize(
    ("indexed", "known", "asked"),
    [
        pytest.param(COUNTERS, IDS, [], id="nothing is missing"),
        pytest.param(COUNTERS, IDS[:1], IDS[1:], id="rows are gone"),
        pytest.param(None, [], IDS, id="the market's row is gone"),
        pytest.param(replace(COUNTERS, paid_out=11), IDS, IDS, id="the index says more was paid"),
        pytest.param(replace(COUNTERS, status=AgentMarketStatus.OPEN), IDS, IDS, id="the index says it is open"),
    ],
)
def test_stakes_that_must_be_read_from_the_contract(
    indexed: Counters | None, known: list[int], asked: list[int]
) -> None:
    assert unindexed_ids(2, 3, COUNTERS, indexed, set(known)) == asked


def test_a_market_waits_for_a_reading_that_can_still_be_recorded() -> None:
    facts = Facts(THRESHOLD, True, unrecorded=ENDS - 5, agreed=True)
    waiting = decide_market(facts, THRESHOLD.voids_after)
    assert isinstance(waiting, Wait)
    assert str(ENDS - 5) in waiting.reason
    assert claim(facts) is None
    void = decide_market(facts, THRESHOLD.voids_after + 1)
    assert isinstance(void, Settle)
    assert (void.function, void.end_round, void.start_round) == (VOID, 0, 0)


def test_a_crossing_settles_although_the_reading_at_the_end_is_not_recorded() -> None:
    decision = decide_market(Facts(EARLY, True, crossed=True, unrecorded=ENDS - 5), EARLY.voids_after + 1)
    assert isinstance(decision, Settle)
    assert (decision.function, decision.end_round) == (RESOLVE, 0)

"""How a stock market ends: every status at every moment that matters, to the second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.contracts.statuses import PreviewStatus, RoundProblem
from keeper.settling import NodeQuorum, Wait
from keeper.stock.resolve import Facts, Settle, decide

BELL = 1_000_000
DAY = 86_400
VOID_DELAY = 72 * 3600
FACTS = Facts(
    market_id=7,
    final_time=BELL,
    freeze_time=BELL,
    void_delay=VOID_DELAY,
    is_open=True,
    status=PreviewStatus.UP,
    strike_round=11,
    final_round=22,
)


def at(status: PreviewStatus, seconds: int, **changes: object) -> Settle | Wait:
    return decide(replace(FACTS, status=status, **changes), BELL + seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", list(PreviewStatus))
@pytest.mark.parametrize("seconds", [-DAY, 0, 1, 59])
def test_nothing_happens_within_a_minute_of_the_bell(status: PreviewStatus, seconds: int) -> None:
    assert isinstance(at(status, seconds, agreed=True), Wait)


@pytest.mark.parametrize("status", list(PreviewStatus))
def test_a_settled_market_is_left_alone_for_ever(status: PreviewStatus) -> None:
    assert isinstance(at(status, 100 * DAY, is_open=False, agreed=True), Wait)


@pytest.mark.parametrize(
    ("status", "seconds", "agreed", "function"),
    [
        # What the rounds decide, at once; flat too, which the resolver voids.
        (PreviewStatus.UP, 60, False, "resolveWith"),
        (PreviewStatus.DOWN, 60, False, "resolveWith"),
        (PreviewStatus.FLAT, 60, False, "resolveWith"),
        (PreviewStatus.UP, 30 * DAY, False, "resolveWith"),  # even long after anyone may void it
        # A garbage round must refund at once, not strand the market.
        (PreviewStatus.BAD_ANSWER, 60, False, "voidBadAnswer"),
        # Stale: a quarter of an hour, and two reads that agree.
        (PreviewStatus.STALE, 60, True, None),
        (PreviewStatus.STALE, 899, True, None),
        (PreviewStatus.STALE, 900, False, None),
        (PreviewStatus.STALE, 900, True, "voidStale"),
        (PreviewStatus.STALE, 30 * DAY, False, None),
        # Paused over a reading: that is witnessed, and waiting does not mend it.
        (PreviewStatus.PAUSED, 60, False, "voidPaused"),
        # No proof: only the timeout helps.
        (PreviewStatus.BAD_PROOF, 60, True, None),
        (PreviewStatus.BAD_PROOF, VOID_DELAY - 1, True, None),
        (PreviewStatus.BAD_PROOF, VOID_DELAY, False, "voidMarket"),
        # The resolver does not know it.
        (PreviewStatus.NOT_READY, 60, True, None),
        (PreviewStatus.NOT_READY, 30 * DAY, True, None),
    ],
)
def test_what_settles_it(status: PreviewStatus, seconds: int, agreed: bool, function: str | None) -> None:
    decision = at(status, seconds, agreed=agreed)
    assert (decision.call.function if isinstance(decision, Settle) else None) == function


@pytest.mark.parametrize(
    ("voices", "seconds", "function", "said"),
    [
        ({"agreeing": ("a", "b")}, 900, "voidStale", "older than its limit"),
        # Only who contradicts is a reason not to, and it is for good.
        ({"agreeing": ("a",), "contradicting": ("b",)}, 900, None, "but not according to b"),
        ({"agreeing": ("a",), "contradicting": ("b", "c")}, VOID_DELAY, None, "but not according to b and c"),
        # A node that is away is named, and waited for only while no node at all confirms it.
        ({"agreeing": ("a",), "silent": ("b",)}, 900, "voidStale", "(no response from b)"),
        ({"silent": ("a", "b")}, 900, None, "no response from a and b"),
        ({"silent": ("a", "b")}, VOID_DELAY - 1, None, "no response from a and b"),
        ({"silent": ("a", "b")}, VOID_DELAY, "voidStale", "(no response from a and b)"),
    ],
)
def test_what_other_nodes_say_of_a_stale_market(
    voices: dict[str, tuple[str, ...]], seconds: int, function: str | None, said: str
) -> None:
    decision = at(PreviewStatus.STALE, seconds, agreed=True, quorum=NodeQuorum(**voices))
    assert (decision.call.function if isinstance(decision, Settle) else None) == function
    assert said in (decision.why if isinstance(decision, Settle) else decision.reason)
    # However many nodes agree now, one look is not two.
    assert isinstance(at(PreviewStatus.STALE, seconds, agreed=False, quorum=NodeQuorum(**voices)), Wait)


def test_rounds_are_named_where_they_are_proven() -> None:
    for status in (PreviewStatus.UP, PreviewStatus.STALE, PreviewStatus.BAD_ANSWER):
        decision = at(status, 1000, agreed=True)
        assert isinstance(decision, Settle)
        assert decision.call.contract == "RoundResolver"
        assert decision.call.arguments == (7, 11, 22)
    paused = at(PreviewStatus.PAUSED, 60)
    assert isinstance(paused, Settle)
    assert (paused.call.contract, paused.call.arguments) == ("RoundResolver", (7,))
    timeout = at(PreviewStatus.BAD_PROOF, VOID_DELAY)
    assert isinstance(timeout, Settle)
    assert (timeout.call.contract, timeout.call.arguments) == ("VestedMarkets", (7,))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strike_problem": RoundProblem.NO_ROUND}, "no strike reading can be proven (no round)"),
        ({"final_problem": RoundProblem.NO_FEED}, "no final reading can be proven (no feed)"),
        ({"final_problem": RoundProblem.TOO_MANY_PHASES}, "too many phases"),
    ],
)
def test_a_wait_says_what_is_missing(changes: dict[str, RoundProblem], said: str) -> None:
    decision = at(PreviewStatus.BAD_PROOF, 3600, **changes)
    assert isinstance(decision, Wait)
    assert said in decision.reason
    assert "anyone may void it in" in decision.reason

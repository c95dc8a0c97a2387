"""How an agent market ends, and when: the resolver's own rules, with waits before anything that gives money back."""

from __future__ import annotations

from dataclasses import dataclass

from core.agent.book import DecidingTerms, Reading, decide, fault
from core.contracts.statuses import MarketKind, RoundProblem, VoidReason
from keeper.opinions import NOBODY, Opinions
from keeper.waits import STALE_PATIENCE_SECONDS, Wait

BY_FINDING = 0
"""As a round: the contract finds it."""


@dataclass(frozen=True, slots=True)
class InEffect:
    """The round in effect at a moment, or why there is none."""

    problem: RoundProblem
    round_id: int = 0
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """An unsettled market at one block. `crossed`: a reading of its interval that counts is at or over its target."""

    terms: DecidingTerms
    is_open: bool  # as the contract says, not the index
    condemned: bool = False  # the Safe condemned its feed
    crossed: bool = False
    end: InEffect | None = None
    start: InEffect | None = None
    unrecorded: int | None = None  # a deciding reading that its pool feed can still be given, and has not been
    agreed: bool = False  # two reads, apart, say the same
    opinions: Opinions = NOBODY  # of the other nodes


@dataclass(frozen=True, slots=True)
class Settle:
    """The call that ends a market: `resolveWith` or `voidWith`, with rounds; 0 for one that the contract finds or that
    plays no part."""

    function: str
    end_round: int
    start_round: int
    why: str


RESOLVE = "resolveWith"
VOID = "voidWith"


def decide_market(facts: Facts, now: int) -> Settle | Wait:
    """`now` is the chain's clock."""
    terms = facts.terms
    if not facts.is_open:
        return Wait("it is settled; the index has not read that yet")
    if facts.condemned:
        return Settle(VOID, BY_FINDING, BY_FINDING, "its feed is condemned")
    if facts.crossed:
        return Settle(RESOLVE, BY_FINDING, BY_FINDING, "a reading has reached the target")
    if now <= terms.settles_after:
        return Wait(_too_early(terms, now))
    if now > terms.voids_after:
        return Settle(VOID, BY_FINDING, BY_FINDING, "nothing settled it in time")
    if facts.unrecorded is not None:
        return Wait(f"the reading of {facts.unrecorded} is not recorded yet")
    if facts.end is None:
        return Wait("its reading was not looked up")
    if _unreadable(facts):
        left = terms.voids_after + 1 - now
        return Wait(f"its feed cannot be read ({_problem(facts)}); anyone may void it in {left} s")
    return _by_readings(facts, facts.end, now)


def _by_readings(facts: Facts, end: InEffect, now: int) -> Settle | Wait:
    terms = facts.terms
    start = facts.start or InEffect(RoundProblem.OK)
    verdict = decide(terms, end.reading, start.reading)
    if verdict.winner is not None:
        return Settle(RESOLVE, end.round_id, start.round_id, f"outcome {verdict.winner} has won")
    reason = verdict.void
    if reason in (VoidReason.TIE, VoidReason.MET_BEFORE_START):
        return Settle(RESOLVE, end.round_id, start.round_id, f"it is void: {_word(reason)}")
    if reason is VoidReason.BAD_ANSWER:
        return Settle(VOID, end.round_id, start.round_id, "a reading in effect holds no value")
    left = terms.settles_after + STALE_PATIENCE_SECONDS - now
    if left > 0:
        return Wait(f"{_word(reason)}; voided in {left} s at the earliest")
    if not facts.agreed:
        return Wait(f"{_word(reason)}; a second read must say so too")
    hindrance = facts.opinions.hindrance(waited_long=False)
    if hindrance is not None:
        return Wait(f"{_word(reason)}{hindrance}")
    return Settle(VOID, end.round_id, start.round_id, f"{_word(reason)}{facts.opinions.remark}")


def _too_early(terms: DecidingTerms, now: int) -> str:
    left = terms.settles_after + 1 - now
    if now < terms.ends_at:
        return f"what decides it is measured until {terms.ends_at}"
    if terms.published:
        return f"its last readings and the dispute window take {left} s more"
    return f"its last readings may still come in for {left} s"


def claim(facts: Facts) -> str | None:
    """What a void for want of a reading would rest on, as a text that must be read twice; None when it would not."""
    end = facts.end
    if end is None or _unreadable(facts):
        return None
    at_end = fault(facts.terms, end.reading, facts.terms.ends_at)
    at_start = None
    if facts.terms.kind is MarketKind.DIRECTION and facts.start is not None:
        at_start = fault(facts.terms, facts.start.reading, facts.terms.start_at)
    if VoidReason.STALE not in (at_end, at_start) and VoidReason.NO_READING not in (at_end, at_start):
        return None
    rounds = f"{end.round_id} {facts.start.round_id if facts.start is not None else 0}"
    return f"{at_end} {at_start} {rounds}"


def _unreadable(facts: Facts) -> bool:
    """A feed that answers and has no round proves that; one that does not answer proves nothing."""
    proven = (RoundProblem.OK, RoundProblem.NO_ROUND)
    return any(each is not None and each.problem not in proven for each in (facts.end, facts.start))


def _problem(facts: Facts) -> str:
    problems = [each.problem for each in (facts.end, facts.start) if each is not None]
    return max(problems).name.lower().replace("_", " ")


def _word(reason: VoidReason | None) -> str:
    return (
        {
            VoidReason.STALE: "a reading is older than its bound",
            VoidReason.NO_READING: "its feed had no round at a deciding moment",
            VoidReason.TIE: "start and end are the same",
            VoidReason.MET_BEFORE_START: "the target was met before its interval began",
        }.get(reason, str(reason))
        if reason is not None
        else "it cannot be decided"
    )

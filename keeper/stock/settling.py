"""How an unsettled market ends, and when: the resolver's word, with waits before anything that gives money back."""

from __future__ import annotations

from dataclasses import dataclass

from core.contracts.statuses import PreviewStatus, RoundProblem
from core.stock.settling import EndingCall, ending_call
from keeper.opinions import NOBODY, Opinions
from keeper.waits import STALE_PATIENCE_SECONDS, Wait

AFTER_BELL_SECONDS = 60
"""Nothing is done earlier: a round of the final second may still be on its way into a block. The resolver's own delay
comes on top where it is longer."""


@dataclass(frozen=True, slots=True)
class Facts:
    """An unsettled market at one block. Rounds are 0 where none is in effect; problems are the round finder's."""

    market_id: int
    final_time: int
    freeze_time: int
    void_delay: int
    is_open: bool  # as the settler says, not the index
    status: PreviewStatus
    strike_round: int = 0
    final_round: int = 0
    strike_problem: RoundProblem = RoundProblem.OK
    final_problem: RoundProblem = RoundProblem.OK
    agreed: bool = False  # two reads, apart, say the same
    opinions: Opinions = NOBODY  # of the other nodes

    @property
    def rounds(self) -> tuple[int, int]:
        return self.strike_round, self.final_round

    @property
    def anyone_voids_from(self) -> int:
        return self.freeze_time + self.void_delay


@dataclass(frozen=True, slots=True)
class Settle(EndingCall):
    """A call that settles or voids the market, and the reason."""

    why: str


def decide(facts: Facts, now: int) -> Settle | Wait:
    """`now` is the chain's clock."""
    if not facts.is_open:
        return Wait("it is settled; the index has not read that yet")
    if now < facts.final_time + AFTER_BELL_SECONDS:
        return Wait(f"{facts.final_time + AFTER_BELL_SECONDS - now} s to go until a minute after its bell")
    match facts.status:
        case PreviewStatus.UP | PreviewStatus.DOWN | PreviewStatus.FLAT:
            word = "flat, so it is void" if facts.status is PreviewStatus.FLAT else facts.status.name
            return _settle(facts, f"the rounds say {word}")
        case PreviewStatus.BAD_ANSWER:
            return _settle(facts, "a round in effect holds no price")
        case PreviewStatus.STALE:
            left = facts.final_time + STALE_PATIENCE_SECONDS - now
            if left > 0:
                return Wait(f"its readings are stale; voided in {left} s at the earliest")
            if not facts.agreed:
                return Wait("its readings are stale; a second read must say so too")
            hindrance = facts.opinions.hindrance(waited_long=now >= facts.anyone_voids_from)
            if hindrance is not None:
                return Wait(f"its readings are stale{hindrance}")
            why = f"a reading is older than its bound, or from an outage of the sequencer{facts.opinions.remark}"
            return _settle(facts, why)
        case PreviewStatus.PAUSED:
            return _settle(facts, "the stock's oracle was paused over a reading, or its multiplier changed")
        case PreviewStatus.BAD_PROOF:
            if now >= facts.anyone_voids_from:
                return _settle(facts, f"nothing could settle it: {_problem(facts)}")
            return Wait(f"{_problem(facts)}; anyone may void it in {facts.anyone_voids_from - now} s")
        case PreviewStatus.NOT_READY:
            return Wait("the resolver waits for late rounds or for the chain's sequencer")


def _settle(facts: Facts, why: str) -> Settle:
    call = ending_call(facts.status, facts.market_id, facts.rounds, is_voidable=True)
    assert call is not None, "a market that may be voided has a call that ends it"
    return Settle(call.contract, call.function, call.arguments, why)


def _problem(facts: Facts) -> str:
    which = "strike" if facts.strike_problem is not RoundProblem.OK else "final"
    problem = facts.strike_problem if which == "strike" else facts.final_problem
    return f"no {which} reading can be proven ({problem.name.lower().replace('_', ' ')})"

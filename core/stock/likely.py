"""What a stock bet is likely paid if its side wins, and so how often that side must win for the bet to break even.

A right bet is paid by what the other side stakes after it, so both rest on what usually still comes:

- *How much.* The median of what the venue's last settled markets took, with the crowd of docs/fairness.md counted as
  some of them, spread evenly over the betting time. A market that took less so far than it should have by now lowers
  this; one that took more does not raise it, or bets on both sides could make the next ones look good.
- *On which side.* Before the strike half of it is wrong. Once a fraction s of the measured time has passed, those who
  choose by the probability of a driftless price are wrong with 1/2 - asin(s)/pi.

Where the price stands is left out: a side that is far ahead gets less than this, one that is behind gets more. Integers
throughout, in token units; every division rounds the payout down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import asin, pi
from typing import Final

from core.money import USD
from core.stock.classic import fee_on_gain
from core.stock.vested import DOWN, UP, Moment, VestedMarket, headroom, live

SLOTS: Final = 20
"""Of the betting time; half of them before the strike."""
HALF: Final = SLOTS // 2
PRECISION: Final = 1_000
"""Parts of a slot, and of a whole."""
WRONG: Final = (PRECISION // 2,) * HALF + tuple(
    round(PRECISION * (1 / 2 - asin((slot + 1 / 2) / HALF) / pi)) for slot in range(HALF)
)
"""In each slot: how many thousandths of the stakes lose."""

STUDY_VOLUME: Final[int] = 1_050 * USD
"""What the crowd of forty in docs/fairness.md stakes in a market."""
STUDY_MARKETS: Final = 5
HISTORY: Final = 20
"""At most so many settled markets count, the newest."""
PATIENCE: Final = SLOTS // 4
"""The slots after which what a market took itself weighs as much as what others took."""


@dataclass(frozen=True, slots=True)
class LikelyResult:
    """A bet's accepted part, what it is likely paid if right, after the fee, and in how many thousandths of all cases
    its side must win for it not to lose; None where nothing is accepted."""

    accepted: int
    payout: int
    break_even: int | None


def usual_volume(settled: Sequence[int]) -> int:
    """Return what a market usually takes in all, given what the last settled ones took, the newest first."""
    volumes = sorted([*settled[:HISTORY], *[STUDY_VOLUME] * STUDY_MARKETS])
    return volumes[(len(volumes) - 1) // 2]


def elapsed(opened_at: int, strike_time: int, final_time: int, now: int) -> int:
    """Return how much of the betting time has passed, in thousandths of a slot, rounded down."""
    begin, end, slots = (opened_at, strike_time, 0) if now < strike_time else (strike_time, final_time, HALF)
    part = min(max(now - begin, 0), end - begin)
    return slots * PRECISION + HALF * PRECISION * part // max(1, end - begin)


def likely(market: VestedMarket, outcome: int, amount: int, now: Moment, at: int, usual: int) -> LikelyResult:
    """Return what a bet made now comes to. `at`: how much of the betting time has `passed`; `usual`: `usual_volume`."""
    accepted = min(amount, headroom(market, now)[outcome])
    if accepted == 0:
        return LikelyResult(0, 0, None)
    terms, principals = market.terms, live(market, now)
    taken = sum(principals) - 2 * terms.seed_per_leg
    # Rounded down, as everything that makes the payout.
    own_pace = (usual * PATIENCE + taken * SLOTS) * PRECISION // (PATIENCE * PRECISION + at)
    a_slot = min(usual, own_pace) // SLOTS
    own, other = principals[outcome] + accepted, principals[DOWN if outcome == UP else UP]
    kappa, cap, gain = terms.kappa, terms.side_cap, 0
    slot, begun = divmod(at, PRECISION)
    flow = a_slot * (PRECISION - begun) // PRECISION
    for share in WRONG[slot:]:
        wrong = flow * share // PRECISION
        right = flow - wrong
        if wrong > (room := max(0, min(kappa * own, cap) - other)):
            wrong = room
        if right > (room := max(0, min(kappa * other, cap) - own)):
            right = room
        gain += accepted * wrong // own
        own, other, flow = own + right, other + wrong, a_slot
    payout = accepted + gain - fee_on_gain(accepted + gain, accepted, terms.fee_bps)
    # Rounded up: at no less is the bet worth its stake.
    return LikelyResult(accepted, payout, -(-accepted * PRECISION // payout))

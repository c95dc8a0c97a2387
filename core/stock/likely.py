"""The likely payout of a winning stock bet, and how often its side must win for the bet to break even.

A winning bet is paid by what the other side stakes after it, so both figures depend on the expected further stakes:

- *How much.* The usual volume is the median volume of the venue's last settled markets and of a few markets with the
  crowd of docs/fairness.md. It is spread evenly over the betting time. A market below this pace lowers the expected
  stakes. A market above it does not raise them; otherwise bets on both sides could make the next bets look good.
- *On which side.* Before the strike, half of the volume is on the wrong side. Once a fraction s of the measured
  time has passed, bettors who follow the probability of a driftless price are wrong with probability
  1/2 - asin(s)/pi.

The current price is ignored: a side that is far ahead gets less than the likely payout, and a side that is behind gets
more. All values are integers of token units; every division rounds the payout down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import asin, pi
from typing import Final

from core.money import USD
from core.stock.vested import DOWN, UP, Moment, VestedMarket, fee_on_gain, headroom, live

SLOTS: Final = 20
"""Slots of the betting time, half of them before the strike."""
HALF: Final = SLOTS // 2
PRECISION: Final = 1_000
"""Parts of a slot, and of the whole."""
WRONG: Final = (PRECISION // 2,) * HALF + tuple(
    round(PRECISION * (1 / 2 - asin((slot + 1 / 2) / HALF) / pi)) for slot in range(HALF)
)
"""Thousandths of the stakes that lose, by slot."""

STUDY_VOLUME: Final[int] = 1_050 * USD
"""The volume of a market with the crowd of forty in docs/fairness.md."""
STUDY_MARKETS: Final = 5
HISTORY: Final = 20
"""How many settled markets count, the newest."""
PATIENCE: Final = SLOTS // 4
"""The slots after which a market's own volume weighs as much as that of others."""


@dataclass(frozen=True, slots=True)
class LikelyResult:
    """The likely result of a bet: the accepted part, the payout after the fee if the bet wins, and the break-even
    probability in thousandths (None if nothing is accepted)."""

    accepted: int
    payout: int
    break_even: int | None


def usual_volume(settled: Sequence[int]) -> int:
    """Return the usual volume of a market, given the volumes of the last settled markets, newest first."""
    volumes = sorted([*settled[:HISTORY], *[STUDY_VOLUME] * STUDY_MARKETS])
    return volumes[(len(volumes) - 1) // 2]


def elapsed(opened_at: int, strike_time: int, final_time: int, now: int) -> int:
    """Return the elapsed betting time in thousandths of a slot, rounded down."""
    begin, end, slots = (opened_at, strike_time, 0) if now < strike_time else (strike_time, final_time, HALF)
    part = min(max(now - begin, 0), end - begin)
    return slots * PRECISION + HALF * PRECISION * part // max(1, end - begin)


def likely(market: VestedMarket, outcome: int, amount: int, now: Moment, at: int, usual: int) -> LikelyResult:
    """Return the likely result of a bet made now. `at` is the betting time from `elapsed`; `usual` is the volume from
    `usual_volume`."""
    accepted = min(amount, headroom(market, now)[outcome])
    if accepted == 0:
        return LikelyResult(0, 0, None)
    terms, principals = market.terms, live(market, now)
    taken = sum(principals) - 2 * terms.seed_per_leg
    # Rounded down, like everything that determines the payout.
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
    # Rounded up, since at any less the bet would lose.
    return LikelyResult(accepted, payout, -(-accepted * PRECISION // payout))

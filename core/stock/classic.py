"""What an ordinary parimutuel pool would pay, for the comparison the pages and the API show next to a vested payout.

An ordinary pool forgets when a stake came in: the winners share the whole pool in proportion to what they staked. We
compare on the same accepted stakes and at the same fee, so that the only difference left is the mechanism.
All amounts are token units.
"""

from __future__ import annotations

BPS = 10_000


def fee_on_gain(gross: int, principal: int, fee_bps: int) -> int:
    """The fee on a payout: its gain times `fee_bps`, rounded down, so in the winner's favour. No gain, no fee."""
    return max(0, gross - principal) * fee_bps // BPS


def classic_payout(accepted: int, pool: int, winning_pool: int, fee_bps: int) -> int:
    """Return what an ordinary pool pays a winning stake of `accepted` after the fee on its gain.

    `pool` is everything accepted on both outcomes, seed included; `winning_pool` the winner's part of it. The share is
    rounded down: a pool cannot pay a fraction of a unit. Losers get nothing from either kind of pool.
    """
    if accepted == 0:
        return 0
    gross = accepted * pool // winning_pool
    return gross - fee_on_gain(gross, accepted, fee_bps)

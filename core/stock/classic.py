"""The payout of an ordinary parimutuel pool, shown for comparison with a vested payout.

In an ordinary pool the winners share the whole pool in proportion to their stakes, whenever they came. The comparison
uses the same accepted stakes and the same fee, so the mechanism is the only difference. All amounts are token units.
"""

from __future__ import annotations

BPS = 10_000


def fee_on_gain(gross: int, principal: int, fee_bps: int) -> int:
    """Return the fee on a payout's gain, rounded down, in the winner's favour. Without a gain there is no fee."""
    return max(0, gross - principal) * fee_bps // BPS


def classic_payout(accepted: int, pool: int, winning_pool: int, fee_bps: int) -> int:
    """Return an ordinary pool's payout of a winning stake of `accepted`, after the fee on its gain.

    `pool` is everything accepted on both outcomes, seed included; `winning_pool` is the winning side of it. The share
    is rounded down.
    """
    if accepted == 0:
        return 0
    gross = accepted * pool // winning_pool
    return gross - fee_on_gain(gross, accepted, fee_bps)

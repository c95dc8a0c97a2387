"""What an attack on a feed costs against what it can win.

*Pools.* By the arithmetic of `vpm feed cost`: the rule's cap, what moves a reading by one standard deviation, and what
somebody adds to a fair bet who watches and pushes in the last moments, solved backwards in time (`watching`).

*Publishers.* A key, and what stands on the feed until the Safe has condemned it.

*Stock feeds.* The share itself has to move. How deep its order book is at the bell is an assumption, and so is the rest
of this part: `ShareMarket`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from core.agent.book import BPS, MIN_FEE_BPS
from core.feeds.cost import FULL_REACH, SECONDS_PER_YEAR, cap_factor, feed_cap, least_window
from core.feeds.live_cost import SAFES_FLOOR
from scripts._feed.table import FEES, SIZES, YEARLY, priced
from scripts._study.mechanisms import Parameters
from scripts._study.watching import arbitraged, unarbitraged

FACTORS: Final = (10, 25, 30, 35, 50, 70, 100)
MIN_CHANCE: Final = 0.01
KEPT: Final = 1.0
"""Half a round trip: what was bought is sold elsewhere, so the fee is paid once. The worst case."""
WIDTHS: Final = (None, 1.0)
"""A threshold, and a bucket of one standard deviation."""
DEVIATION: Final = 0.005
"""What a stock feed has to be off before it writes a round by itself: `deviationBps` in deployments/stock.json."""


def measure(steps: int, cells: int) -> dict[str, Any]:
    return {
        "pools": [_pool(size, fee, spacing) for size in SIZES for fee, spacing in FEES],
        "watching": {str(factor): watching(factor, steps, cells) for factor in FACTORS},
        "fees": {"least": MIN_FEE_BPS / BPS, "deployed": Parameters().fee_bps / BPS},
        "stock": [exchange.costs(push) for exchange in EXCHANGES for push in PUSHES],
    }


def _pool(size: int, fee_pips: int, spacing: int) -> dict[str, Any]:
    pool = priced(size, fee_pips, spacing)
    sigma = YEARLY / math.sqrt(SECONDS_PER_YEAR)
    window = max(SAFES_FLOOR, least_window([pool], sigma))
    cap = feed_cap([pool], sigma, window)
    unopposed, repeated = pool.cheapest_unopposed(cap.sd), pool.cheapest_repeated(cap.sd, window)
    half = cap_factor(cap.reach) and cap.resistance / (pool.phi * pool.depth())
    return {
        "size": size,
        "fee": pool.phi,
        "window": window,
        "cap": round(cap.dollars, 2),
        "sd": round(cap.sd, 5),
        "held": round(unopposed, 2),
        "repeated": round(repeated, 2),
        "owner": round(unopposed * half, 2),
        "times": round(unopposed / cap.dollars, 2),
        "owner_times": round(unopposed * half / cap.dollars, 2),
    }


def watching(factor: float, steps: int, cells: int) -> dict[str, float]:
    """What the best watcher adds to a fair bet of a market at `factor` times phi * D1 * sd: a part of its cost."""
    alone = max(unarbitraged(factor / 200, width, KEPT, steps, 2 * cells).added(MIN_CHANCE) for width in WIDTHS)
    undone, narrower = (
        max(
            each.added(MIN_CHANCE)
            for width in WIDTHS
            for each in arbitraged(factor / 200, reach, width, steps=steps, cells=cells)
        )
        for reach in (FULL_REACH, FULL_REACH / 2)
    )
    parts = {"nobody": alone, "every": undone, "worst": max(alone, undone), "narrower": max(alone, narrower)}
    return {name: round(value, 4) for name, value in parts.items()}


@dataclass(frozen=True, slots=True)
class ShareMarket:
    """A share's market around the bell, as assumed: what moves it by 1% in the last minute, and half its spread."""

    depth_usd: float
    half_spread: float = 0.0001

    def costs(self, push: float) -> dict[str, float]:
        """What it costs to have the price off by `push` at the bell: where it falls back only as he sells again, he
        pays the spread twice; where others bring it back at once, also what he bought too dear."""
        bought = 100 * self.depth_usd * push
        alone = 2 * bought * self.half_spread
        undone = alone + bought * push / 2
        return {
            "depth": self.depth_usd,
            "push": push,
            "bought": round(bought),
            "nobody": round(alone),
            "every": round(undone),
            "pot": round(alone / 2),
            "pot_every": round(undone / 2),
        }


EXCHANGES: Final = (ShareMarket(10e6), ShareMarket(50e6))
PUSHES: Final = (0.001, DEVIATION, 2 * DEVIATION)

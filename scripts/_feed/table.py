"""The guide's table: pools of 0.1, 1 and 10 million USD at each fee, by the code of `vpm feed cost`."""

from __future__ import annotations

import math

from core.feeds.cost import MOVES, SECONDS_PER_YEAR, PricedPool, feed_cap, least_window
from core.feeds.live_cost import SAFES_FLOOR
from core.feeds.uniswap import Pool, sqrt_price_at
from core.feeds.uniswap.ticks import MAX_TICK
from core.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "pool-feeds.md"
BEGIN, END = "<!-- begin: vpm feed table -->", "<!-- end: vpm feed table -->"
SIZES = (100_000, 1_000_000, 10_000_000)
FEES = ((100, 1), (500, 10), (3_000, 60), (10_000, 200))
YEARLY = 2.0
HALF_A_DAY = 43_200
_WHOLE = 10**18


def rows() -> list[str]:
    sigma = YEARLY / math.sqrt(SECONDS_PER_YEAR)
    head = ["pool", "fee", "D1", *(f"{move:.1%}" for move in MOVES), "window", "cap", "cap at 12 h"]
    made = [head, ["---"] * 2 + ["---:"] * (len(head) - 2)]
    for size in SIZES:
        for fee_pips, spacing in FEES:
            source = priced(size, fee_pips, spacing)
            window = max(SAFES_FLOOR, least_window([source], sigma))
            caps = [_usd(feed_cap([source], sigma, seconds).dollars) for seconds in (window, HALF_A_DAY)]
            pairs = [(source.cheapest_unopposed(move), source.cheapest_repeated(move, window)) for move in MOVES]
            costs = [f"{_usd(unopposed)} / {_usd(repeated)}" for unopposed, repeated in pairs]
            name = f"{size / 10**6:g} million"
            made.append([name, f"{fee_pips / 10_000:g}%", _usd(source.depth()), *costs, _length(window), *caps])
    return [f"| {' | '.join(cells)} |" for cells in made]


def priced(size: int, fee_pips: int, spacing: int) -> PricedPool:
    """A pool with liquidity at every price alike and half its money on each side."""
    pool = Pool.at(sqrt_price_at(0), fee_pips, spacing)
    edge = MAX_TICK // spacing * spacing
    pool.mint(-edge, edge, size * _WHOLE // 2)
    return PricedPool(f"{size}", pool, 1 / _WHOLE, 1 / _WHOLE)


def _usd(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.1f}" if amount >= 0.1 else f"{amount:.2f}"


def _length(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def main(*, write: bool) -> int:
    table = "\n".join(rows())
    if not write:
        print(table)
        return 0
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
    return 0

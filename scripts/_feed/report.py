"""The output of `vpm feed cost`."""

from __future__ import annotations

import math

from core.feeds.cost import FLOOR, MOVES
from core.feeds.live_cost import CostReport

MARKETS = 12  # how many the keeper usually has unsettled on a pool feed


def lines(cost: CostReport) -> list[str]:
    """Return the lines of the report."""
    cap, asked = cost.cap, cost.asked
    shown = [
        f"{cost.token.symbol} at {cost.price:.6g} USD, on chain {cost.chain_id} at block {cost.head.number}",
        f"window {asked.window} s; volatility {cost.sigma.yearly:.0%} a year ({cost.sigma.origin})",
        "",
    ]
    for pool, source in zip(cost.pools, cost.sources, strict=True):
        remembers = (cost.head.timestamp - pool.oldest_at) / 3_600
        shown += [
            f"{source.name} {pool.address}, fee {pool.pool.fee_pips / 10_000:g}%",
            f"  depth: {source.depth():,.0f} USD move it by 1%",
            f"  history: {remembers:.1f} h; room for {pool.cardinality} observations "
            f"(growing to {pool.cardinality_next}); the last is {cost.head.timestamp - pool.newest_at} s old",
        ]
        out = source.push_out(asked.window, asked.own_share)
        if out is None:
            shown.append(f"  liquidity: no push can leave less than {float(FLOOR):.0%} of it in range")
        else:
            shown.append(
                f"  liquidity: {out.cost:,.0f} USD push it under {float(FLOOR):.0%} (tick {out.tick}, {out.seconds} s)"
            )
    shown += ["", f"{'the reading moves by':>22} {'without arbitrage':>24}"]
    shown += [f"{move:>21.1%}  {cost.cost(move):>20,.0f} USD" for move in MOVES]
    shown += [
        "",
        f"cap of a feed, all its unsettled markets together: {math.floor(cap.dollars):,} USD",
        f"  a market's, one part in {MARKETS} of it: {math.floor(cap.dollars / MARKETS):,} USD",
        f"  = {cap.factor:g} * phi * D1 * sd, with phi * D1 = {cap.resistance:,.2f} USD over all pools,",
        f"    without {asked.own_share:.0%} of the depth, which may be the attacker's own,",
        f"    and sd = {cap.sd:.3%}, the reading's standard deviation while it is measured",
    ]
    if cap.by_push_out is not None:
        limits = "this is the limit" if cap.by_push_out < cap.by_pushes else "more than the cap, as required"
        shown.append(f"  pushing the liquidity out costs {cap.by_push_out:,.0f} USD: {limits}")
    if not cap.window_is_long_enough:
        shown.append(
            f"  the window is short for the fee: the band covers {cap.reach:.0%} of the price's movement. "
            f"With {cost.least_window} s or more the whole factor applies"
        )
    return shown

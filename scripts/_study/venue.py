"""What the venue earns, for each market and for a day, and the most that it can lose."""

from __future__ import annotations

from typing import Any, Final

from scripts._study.mechanisms import Parameters

TICKERS: Final = 4
WEEKLIES_A_DAY: Final = 1 / 5
"""Of each ticker, beside its daily market."""
POTS: Final = (16, 80, 180, 1_000, 10_000)


def income(figures: dict[str, Any]) -> dict[str, Any]:
    stock = {}
    for bets, cell in figures["sweep"]["bets"]["vested/bell"].items():
        fees, seed = cell["fees"]["mean"], cell["seed"]["mean"]
        a_day = TICKERS * (1 + WEEKLIES_A_DAY)
        stock[bets] = {
            "volume": cell["volume"]["mean"],
            "fees": fees,
            "seed": seed,
            "times": round(seed / fees, 1) if fees else 0.0,
            "of_volume": round((fees + seed) / cell["volume"]["mean"], 4),
            "day_fees": round(a_day * fees, 1),
            "day_seed": round(a_day * seed, 1),
        }
    fee = Parameters().fee_bps / 10_000
    return {"stock": stock, "agent": {str(pot): round(fee * pot, 2) for pot in POTS}, "markets_a_day": a_day}

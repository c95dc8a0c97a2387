"""How large a bet through the relay may be: the tighter of the market's bounds and these."""

from __future__ import annotations

from api.http.problem import Problem
from core.money import USD, decimal_text

MIN_BET, MAX_BET = 1 * USD, 100 * USD


def check_amount(amount: int, least: int, most: int) -> None:
    """400 for a bet that the relay would not carry."""
    if not least <= amount <= most:
        raise Problem(
            400,
            "amount_out_of_bounds",
            f"A bet here is from {decimal_text(least)} to {decimal_text(most)} USDG, and this one is "
            f"{decimal_text(amount)}.",
            extra={"minEntry": str(least), "maxEntry": str(most)},
        )

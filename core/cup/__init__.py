"""The paper tournament. Amounts are integer cents of pUSDC internally, and exact decimals with at most two places
externally.

Only `ledger` moves amounts. A function that takes a connection in autocommit mode opens its own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal

from core.money import decimal_text, json_number, units_from_decimal, units_from_text

# The status of a position or a bet on a round.
PaperStatus = Literal["open", "won", "lost", "refunded"]


class Refusal(Exception):
    """The API refuses the request with this status and code. `extra` is added to the error body."""

    def __init__(self, status: int, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = dict(extra or {})


# ---------------------------------------------------------------- amounts

DECIMALS: Final = 2
CLAIM_CENTS: Final = 10_000 * 100
# More paper than all wallets could ever hold; keeps every sum within a bigint.
MAX_CENTS: Final = 10**13


def cents_of(value: object) -> int:
    """Convert a JSON number or plain decimal text to cents; raise ValueError for any other value. A float is read as
    the shortest decimal that converts back to it."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError("The amount is not a number.")
    if isinstance(value, str):
        return units_from_text(value, DECIMALS)
    return units_from_decimal(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), DECIMALS)


def text_of(cents: int) -> str:
    """Format cents as in the Size line of a signed message, without trailing zeros: "25", "25.5", "25.05"."""
    return decimal_text(cents, DECIMALS)


def number_of(cents: int) -> Decimal:
    return json_number(cents, DECIMALS)


def percent(part: int, whole: int) -> Decimal:
    """Return part / whole as a percentage with two decimals, rounded half up; 0 if `whole` is 0."""
    return json_number((part * 20_000 + whole) // (2 * whole) if whole else 0, 2)

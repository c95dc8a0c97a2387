"""Amounts: integers of token units inside, exact decimals outside, and never a binary float in between.

A unit is the smallest amount of a token; USDC, USDG and our USD figures have 6 decimals (1 USD = 1,000,000 units). On
the agent surface amounts are JSON numbers: `json_number` is one with its exact digits, `to_json` writes it, `loads`
reads a request body keeping every digit, `units_from_json` refuses what is not a whole number of units. (pydantic's own
JSON parser reads a Decimal through a float, so parse with `loads` first.) Every division says who keeps the dust.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from core.errors import MoneyError

USD_DECIMALS = 6
USD = 10**USD_DECIMALS
BPS = 10_000

# More digits than any sensible amount; bounds the work a hostile number can cause.
_MAX_DIGITS = 80
_MAX_BRACKETS = 5_000
_DECODER = msgspec.json.Decoder(float_hook=Decimal)

to_json = msgspec.json.Encoder(decimal_format="number").encode
"""Write a value as JSON; decimals are numbers, digit for digit."""

_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def loads(body: bytes | str) -> Any:
    """JSON with numbers kept exact: integers as int, all others as Decimal. ValueError when it is not strict JSON."""
    raw = body.encode() if isinstance(body, str) else body
    # Parsers recurse, and some libraries raise Python's recursion limit beyond what the C stack holds.
    if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS:
        raise ValueError("more objects and lists than any request needs")
    try:
        return _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def units_from_json(value: object, decimals: int = USD_DECIMALS) -> int:
    """Return the units of a JSON number read by `loads` (int or Decimal). MoneyError when it is no number or too
    fine."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise MoneyError("The amount is not a number.", hint="Write a JSON number such as 1.5, not a string.")
    return units_from_decimal(Decimal(value) if isinstance(value, int) else value, decimals)


def units_from_decimal(value: Decimal, decimals: int = USD_DECIMALS) -> int:
    """Return the units of an exact decimal. MoneyError when it has more decimals than the token."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise MoneyError("The amount is not a finite number.")
    shift = exponent + decimals
    if len(digits) > _MAX_DIGITS or shift > _MAX_DIGITS:
        raise MoneyError("The amount is too large.")
    number = int("".join(map(str, digits)) or "0")
    if shift >= 0:
        units = number * _power(shift)
    elif number == 0:
        units = 0
    else:
        if -shift > _MAX_DIGITS:
            raise MoneyError(f"The amount has more than {decimals} decimals.")
        units, rest = divmod(number, _power(-shift))
        if rest:
            raise MoneyError(f"The amount has more than {decimals} decimals.", hint=f"Round it to {decimals} decimals.")
    return -units if sign else units


def units_from_text(text: str, decimals: int = USD_DECIMALS) -> int:
    """Return the units of a plain decimal such as "12.50"; no exponent, no plus sign, no spaces."""
    if len(text) > _MAX_DIGITS or not _PLAIN_DECIMAL.fullmatch(text):
        raise MoneyError("The amount is not a plain decimal number.", hint='Write it like "12.5".')
    return units_from_decimal(Decimal(text), decimals)


def decimal_text(units: int, decimals: int = USD_DECIMALS, *, min_decimals: int = 0) -> str:
    """Return the exact decimal without trailing zeros (beyond `min_decimals`): 1500000 is "1.5"."""
    sign = "-" if units < 0 else ""
    whole, fraction = divmod(abs(units), _power(decimals))
    digits = f"{fraction:0{decimals}d}".rstrip("0") if decimals else ""
    digits = digits.ljust(min_decimals, "0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def json_number(units: int, decimals: int = USD_DECIMALS) -> Decimal:
    """Return the exact JSON number: `to_json({"sizeUsd": json_number(1500000)})` is `{"sizeUsd":1.5}`."""
    return Decimal(decimal_text(units, decimals))


def ratio_text_down(numerator: int, denominator: int, decimals: int) -> str:
    """numerator / denominator with at most `decimals` decimals, rounded down (towards minus infinity)."""
    return decimal_text(numerator * _power(decimals) // denominator, decimals)


def json_ratio_down(numerator: int, denominator: int, decimals: int) -> Decimal:
    """Return `ratio_text_down` as a JSON number."""
    return Decimal(ratio_text_down(numerator, denominator, decimals))


def parts_of(whole: int, weights: Sequence[int]) -> list[int]:
    """`whole` in integer parts by these weights, which sum to it exactly: each rounded down, and what that leaves goes,
    a unit each, to those that lost the most by it, the first of equals first."""
    total = sum(weights)
    parts = [whole * weight // total for weight in weights]
    lost = sorted(range(len(weights)), key=lambda at: -(whole * weights[at] % total))
    for at in lost[: whole - sum(parts)]:
        parts[at] += 1
    return parts


def change_bps(before: int, after: int) -> int:
    """Return the relative change in basis points, rounded towards zero. `before` is positive."""
    if before <= 0:
        raise MoneyError("A change is measured from a positive value only.")
    difference = after - before
    size = abs(difference) * BPS // before
    return -size if difference < 0 else size


def _power(exponent: int) -> int:
    """10 to a non-negative exponent, as the int it is."""
    return int(10**exponent)

"""Amounts: integers of token units internally, exact decimals externally, never binary floats.

A unit is the smallest amount of a token; USDC, USDG and USD amounts have 6 decimals. Parse request bodies with `loads`,
because pydantic's JSON parser reads a Decimal through a float. Every division states its rounding.
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

_MAX_DIGITS = 80  # more than any sensible amount has; bounds the work that a hostile number can cause
_MAX_BRACKETS = 5_000
_DECODER = msgspec.json.Decoder(float_hook=Decimal)

to_json = msgspec.json.Encoder(decimal_format="number").encode
_PLAIN_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def loads(body: bytes | str) -> Any:
    """Parse strict JSON with exact numbers: integers as int, others as Decimal. Raise ValueError if the body is not
    JSON."""
    raw = body.encode() if isinstance(body, str) else body
    # Parsers recurse, and some libraries raise Python's recursion limit beyond what the C stack can hold.
    if raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS:
        raise ValueError("too many objects and lists")
    try:
        return _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None


def units_from_json(value: object, decimals: int = USD_DECIMALS) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise MoneyError("The amount is not a number.", hint="Send a JSON number such as 1.5.")
    return units_from_decimal(Decimal(value) if isinstance(value, int) else value, decimals)


def units_from_decimal(value: Decimal, decimals: int = USD_DECIMALS) -> int:
    """Convert an exact decimal into units. Raise MoneyError if it has more decimals than the token."""
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
    """Parse a plain decimal such as "12.50" (no exponent, plus sign or spaces) into units."""
    if len(text) > _MAX_DIGITS or not _PLAIN_DECIMAL.fullmatch(text):
        raise MoneyError("The amount is not a plain decimal number.", hint='Write it like "12.5".')
    return units_from_decimal(Decimal(text), decimals)


def decimal_text(units: int, decimals: int = USD_DECIMALS, *, min_decimals: int = 0) -> str:
    """Format units as an exact decimal without trailing zeros beyond `min_decimals`. For example, 1500000 becomes
    "1.5"."""
    sign = "-" if units < 0 else ""
    whole, fraction = divmod(abs(units), _power(decimals))
    digits = f"{fraction:0{decimals}d}".rstrip("0") if decimals else ""
    digits = digits.ljust(min_decimals, "0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def json_number(units: int, decimals: int = USD_DECIMALS) -> Decimal:
    """Convert units into an exact number for `to_json`. For example, 1500000 becomes 1.5."""
    return Decimal(decimal_text(units, decimals))


def ratio_text_down(numerator: int, denominator: int, decimals: int) -> str:
    """Format numerator / denominator with at most `decimals` decimals, rounded down (towards minus infinity)."""
    return decimal_text(numerator * _power(decimals) // denominator, decimals)


def json_ratio_down(numerator: int, denominator: int, decimals: int) -> Decimal:
    return Decimal(ratio_text_down(numerator, denominator, decimals))


def parts_of(whole: int, weights: Sequence[int]) -> list[int]:
    """Split `whole` into integer parts in proportion to the weights, rounded down. Each leftover unit goes to the part
    that lost the most by rounding, at most one unit to a part. If losses are equal, the earlier part comes first."""
    total = sum(weights)
    parts = [whole * weight // total for weight in weights]
    lost = sorted(range(len(weights)), key=lambda at: -(whole * weights[at] % total))
    for at in lost[: whole - sum(parts)]:
        parts[at] += 1
    return parts


def change_bps(before: int, after: int) -> int:
    """Return the relative change in basis points, rounded towards zero. `before` is positive."""
    if before <= 0:
        raise MoneyError("A relative change needs a positive starting value.")
    difference = after - before
    size = abs(difference) * BPS // before
    return -size if difference < 0 else size


def _power(exponent: int) -> int:
    return int(10**exponent)  # mypy infers Any for the operator's result

"""Exact amounts in and out of JSON, and rounding whose direction the name says."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import money
from core.errors import MoneyError

UNITS = st.integers(min_value=-(10**30), max_value=10**30)


@pytest.mark.parametrize(
    ("body", "units"),
    [
        (b"1", 1_000_000),
        (b"0.000001", 1),
        (b"1e-6", 1),
        (b"1E3", 1_000_000_000),
        (b"1.50000000000", 1_500_000),
        (b"-2.25", -2_250_000),
        (b"-0.0", 0),
        (b"0e-999999999", 0),
        (b"999999999999999999.999999", 999_999_999_999_999_999_999_999),
        (b"0.3", 300_000),  # as a float it would have too many decimals: 0.30000000000000004
    ],
)
def test_json_numbers_are_read_to_the_unit(body: bytes, units: int) -> None:
    assert money.units_from_json(money.loads(body)) == units


@pytest.mark.parametrize(
    "number", [b"0.0000001", b"1.0000001", b"0.30000000000000004", b"1e-7", b"1e-999999999", b"123.4567891"]
)
def test_more_than_six_decimals_is_an_error(number: bytes) -> None:
    with pytest.raises(MoneyError, match="more than 6 decimals"):
        money.units_from_json(money.loads(number))


@pytest.mark.parametrize("number", [b"1e999999999", b"1e75", b"9" * 80 + b".5"])
def test_a_huge_number_costs_nothing_and_is_refused(number: bytes) -> None:
    with pytest.raises(MoneyError, match="too large"):
        money.units_from_json(money.loads(number))


@pytest.mark.parametrize("value", ["1", None, True, [1], {"a": 1}, 1.5])
def test_only_exact_numbers_are_amounts(value: object) -> None:
    with pytest.raises(MoneyError, match="not a number"):
        money.units_from_json(value)


@pytest.mark.parametrize(
    "body", [b"NaN", b"-Infinity", b"01", b"1.", b".5", b"", b"{", b"\xff", b"9" * 5000, b"[" * 100_000, b"[" * 4999]
)
def test_what_is_not_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json and our own checks differ in the text
        money.loads(body)


@given(UNITS)
def test_out_and_in_again_is_the_same(units: int) -> None:
    emitted = money.to_json({"x": money.json_number(units)})
    assert money.units_from_json(money.loads(emitted)["x"]) == units
    assert money.units_from_text(money.decimal_text(units)) == units
    assert Fraction(money.decimal_text(units)) == Fraction(units, 10**6)


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0"), (1, "0.000001"), (1_500_000, "1.5"), (10_000_000, "10"), (-1, "-0.000001"), (123_456_789, "123.456789")],
)
def test_no_needless_zeros(units: int, text: str) -> None:
    assert money.decimal_text(units) == text
    assert money.to_json(money.json_number(units)) == text.encode()


def test_cents_with_two_decimals() -> None:
    assert money.decimal_text(2550, 2, min_decimals=2) == "25.50"
    assert money.decimal_text(2500, 2, min_decimals=2) == "25.00"
    assert money.decimal_text(2505, 2) == "25.05"
    assert money.decimal_text(7, 0) == "7"


@pytest.mark.parametrize("text", ["", " 1", "+1", "1e3", "01", "1.", ".5", "1,5", "0x1", "١", "1" * 100, "nan"])
def test_plain_decimals_only(text: str) -> None:
    with pytest.raises(MoneyError):
        money.units_from_text(text)


@pytest.mark.parametrize(
    ("before", "after", "bps"), [(100, 101, 100), (100, 99, -100), (3, 4, 3333), (3, 2, -3333), (7, 7, 0)]
)
def test_a_change_rounds_towards_zero_both_ways(before: int, after: int, bps: int) -> None:
    assert money.change_bps(before, after) == bps


def test_ratios_for_display() -> None:
    assert money.ratio_text_down(1, 3, 4) == "0.3333"
    assert money.ratio_text_down(-1, 3, 4) == "-0.3334"
    assert money.to_json(money.json_ratio_down(1800, 37, 2)) == b"48.64"

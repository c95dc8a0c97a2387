"""Samples and refusals. Values have the feed's 8 decimals; times are Unix seconds of the chain's clock."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum

ONE = 10**8
INT192_MAX = 2**191 - 1


class Why(StrEnum):
    """Why nothing is posted."""

    UNCONFIGURED = "unconfigured"
    DOWN = "down"
    ABSURD = "absurd"
    LATE = "late"
    DISAGREE = "disagree"


class SampleRefused(Exception):
    """The refusal of a sample; `why` is a word for metrics, the message a sentence."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why = why
        self.message = message


@dataclass(frozen=True, slots=True)
class Sample:
    """What one source said."""

    value: int
    observed_at: int
    source: str


@dataclass(frozen=True, slots=True)
class LatestRound:
    """The latest round of a feed."""

    answer: int
    updated_at: int


def units(number: Decimal | int | str, multiply: Decimal = Decimal(1)) -> int:
    """A number, times `multiply`, with 8 decimals, rounded down. ABSURD when it is none, or not above 0."""
    try:
        value = (Decimal(number) * multiply * ONE).to_integral_value(rounding=ROUND_DOWN)
        fits = 0 < value <= INT192_MAX
    except ArithmeticError:
        raise SampleRefused(Why.ABSURD, f"{str(number)[:40]!r} is not a number") from None
    if not fits:
        raise SampleRefused(Why.ABSURD, f"{str(number)[:40]} is not a positive amount a feed can hold")
    return int(value)  # only now: of what does not fit, every digit would be written out


def dollars(value: int) -> str:
    """For people: `81,234,567.89`, rounded down to cents."""
    return f"{value // ONE:,}.{value % ONE * 100 // ONE:02d}"

"""Samples of sources, and pure functions that combine and check them.

Values have the feed's 8 decimals; times are Unix seconds of the chain's clock.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum

ONE = 10**8
INT192_MAX = 2**191 - 1


class RefusalReason(StrEnum):
    UNCONFIGURED = "unconfigured"
    DOWN = "down"
    ABSURD = "absurd"
    LATE = "late"
    DISAGREE = "disagree"


class SampleRefused(Exception):
    """Raised for a sample that cannot be used. `why` is for metrics, and the message is a sentence."""

    def __init__(self, why: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.why = why
        self.message = message


@dataclass(frozen=True, slots=True)
class Sample:
    value: int
    observed_at: int
    source: str


@dataclass(frozen=True, slots=True)
class LatestRound:
    answer: int
    updated_at: int


def units(number: Decimal | int | str, multiply: Decimal = Decimal(1)) -> int:
    """Return a number times `multiply`, with 8 decimals, rounded down. Raise SampleRefused unless it is above 0."""
    try:
        value = (Decimal(number) * multiply * ONE).to_integral_value(rounding=ROUND_DOWN)
        fits = 0 < value <= INT192_MAX
    except ArithmeticError:
        raise SampleRefused(RefusalReason.ABSURD, f"{str(number)[:40]!r} is not a number") from None
    if not fits:
        raise SampleRefused(RefusalReason.ABSURD, f"{str(number)[:40]} is not a positive amount that a feed can hold")
    return int(value)  # only after the check: int() of a huge number would write out every digit


def dollars(value: int) -> str:
    """Format a value such as `81,234,567.89`, rounded down to cents."""
    return f"{value // ONE:,}.{value % ONE * 100 // ONE:02d}"


BPS = 10_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a feed's values, with 8 decimals. `max_move_bps` is the largest change since the last round, unless
    two sources agree; `agree_within_bps` is how far two sources may differ, relative to the lower."""

    lowest: int = 1
    highest: int = 10**15 * 10**8
    max_move_bps: int = 3_000
    agree_within_bps: int = 200


def agree(samples: Sequence[Sample], refusals: Sequence[SampleRefused], bounds: Bounds) -> Sample:
    """Combine samples into one value. If two or more sources are configured, two must agree.

    Return the newer sample of the closest pair, or the lower one if both have the same time. It keeps its time: with
    the older time, a current value would be backdated, and the feed would be updated only as often as its slowest
    source.
    """
    configured = len(samples) + len(refusals)
    sane = [each for each in samples if bounds.lowest <= each.value <= bounds.highest]
    if not sane:
        if samples:
            value = dollars(samples[0].value)
            raise SampleRefused(RefusalReason.ABSURD, f"{samples[0].source} reports {value}, which is out of bounds")
        if refusals:
            raise SampleRefused(refusals[0].why, "; ".join(each.message for each in refusals))
        raise SampleRefused(RefusalReason.UNCONFIGURED, "no source is configured")
    if configured == 1:
        return sane[0]
    if len(sane) == 1:
        others = "; ".join(each.message for each in refusals) or "the others are out of bounds"
        reason = refusals[0].why if refusals else RefusalReason.ABSURD
        raise SampleRefused(reason, f"only {sane[0].source} has a usable value: {others}")
    ordered = sorted(sane, key=lambda each: (each.value, each.source))
    low, high = min(itertools.pairwise(ordered), key=lambda pair: pair[1].value - pair[0].value)
    if (high.value - low.value) * BPS > low.value * bounds.agree_within_bps:
        both = f"{low.source} reports {dollars(low.value)}, but {high.source} reports {dollars(high.value)}"
        raise SampleRefused(RefusalReason.DISAGREE, both)
    newer = low if low.observed_at >= high.observed_at else high
    return replace(newer, source=f"{low.source} + {high.source}")


def check_move(sample: Sample, last: LatestRound | None, bounds: Bounds, *, agreed: bool) -> Sample:
    """Return the sample. Raise SampleRefused if it moved implausibly far from the last round and no source agrees."""
    if last is None or last.answer <= 0 or agreed:
        return sample
    moved = abs(sample.value - last.answer)
    if moved * BPS > last.answer * bounds.max_move_bps:
        raise SampleRefused(
            RefusalReason.ABSURD,
            f"{sample.source} reports {dollars(sample.value)} after {dollars(last.answer)}; "
            "a second source would have to confirm such a move",
        )
    return sample


def is_new(sample: Sample, last: LatestRound | None) -> bool:
    """Return whether a sample was observed after the last round. A source may be updated less often than it is read."""
    return last is None or sample.observed_at > last.updated_at


def check_time(sample: Sample, now: int, max_lag: int) -> Sample:
    """Return the sample. Raise SampleRefused if it is from the future or too old for the feed."""
    if sample.observed_at > now:
        raise SampleRefused(RefusalReason.ABSURD, f"{sample.source} is {sample.observed_at - now} s ahead of the chain")
    if now - sample.observed_at > max_lag:
        age = now - sample.observed_at
        raise SampleRefused(RefusalReason.LATE, f"{sample.source} is {age} s old; the feed accepts up to {max_lag} s")
    return sample

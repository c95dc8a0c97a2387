"""Exact text for numbers, times and outcomes of agent markets. Nothing is rounded, and seconds are never dropped.

Feed values have 8 decimals, times are Unix seconds. Every function accepts any integer that a contract can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.contracts.statuses import MarketKind
from core.iso import LAST_SECOND, date_text

BINARY_KEYS = {MarketKind.THRESHOLD: ("yes", "no"), MarketKind.DIRECTION: ("up", "down")}
FEED_DECIMALS = 8
# Characters in a side's key, at most.
MAX_KEY = 64

TOKEN_NAMES = {"BNKR": "Bankr", "AIXBT": "aixbt", "VIRTUAL": "Virtuals Protocol"}

_ONE = 10**FEED_DECIMALS
_SCALES = ((10**12, "T"), (10**9, "B"), (10**6, "M"))
_SHORT_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class OutcomeWords:
    key: str
    label: str
    short_label: str
    lower: int | None = None
    upper: int | None = None
    """Bounds of a bucket in feed units: lower inclusive, upper exclusive, None for an open end."""


@dataclass(frozen=True, slots=True)
class FeedSubject:
    """A feed's subject, parsed from the feed's key in the deployment file (for example, `BNKR/market_cap`)."""

    key: str

    @property
    def symbol(self) -> str:
        return self.key.partition("/")[0].upper()

    @property
    def metric(self) -> str:
        return self.key.partition("/")[2]

    @property
    def token_name(self) -> str:
        return TOKEN_NAMES.get(self.symbol, self.symbol)

    @property
    def metric_words(self) -> str:
        return self.metric.replace("_", " ")

    @property
    def name(self) -> str:
        """Return the name for short titles. For a market cap, this is only the token."""
        return self.symbol if self.metric == "market_cap" else f"{self.symbol} {self.metric_words}"

    @property
    def metric_slug(self) -> str:
        return "mcap" if self.metric == "market_cap" else slug(self.metric)


# ---------------------------------------------------------------- numbers


def usd_label(value: int) -> str:
    """Format a feed value in dollars without rounding: `$100M`, `$41.09M`, `$41,095,586`, `$0.0412`."""
    sign, size = ("-", -value) if value < 0 else ("", value)
    for unit, letter in _SCALES:
        if size >= unit * _ONE and size % (unit * _ONE // 10**_SHORT_DECIMALS) == 0:
            return f"{sign}${grouped(size, unit * _ONE)}{letter}"
    return f"{sign}${grouped(size, _ONE)}"


def grouped(value: int, one: int) -> str:
    """Format `value / one` with all its digits: `1,234.5`. `one` is a power of ten."""
    whole, rest = divmod(value, one)
    digits = f"{rest:0{len(str(one)) - 1}d}".rstrip("0")
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"


def level_slug(value: int) -> str:
    """Format a feed value for ids and keys: `100m`, `41-09m`, `41095586`."""
    return usd_label(value).replace("$", "").replace(",", "").replace(".", "-").lower()


def slug(text: str) -> str:
    """Return the text in lower case, with hyphens between its runs of letters and digits."""
    words = "".join(each if each.isascii() and each.isalnum() else " " for each in text.lower()).split()
    return "-".join(words)


# ---------------------------------------------------------------- times


def moment(at: int) -> str:
    """Format a moment: `22 Nov 2026 15:00 UTC`, with seconds only if they are not zero."""
    when = _utc(at)
    if when is None:
        return f"Unix second {at}"
    return f"{date_text(when)} UTC"


def title_moment(at: int) -> str:
    """Format a moment for a question: `on 22 Nov 2026 at 15:00 UTC`."""
    return f"at {moment(at)}" if _utc(at) is None else f"on {day(at)} at {clock(at)} UTC"


def short_moment(at: int) -> str:
    """Format a moment for short titles, without year and zone: `22 Nov 15:00`."""
    when = _utc(at)
    return moment(at) if when is None else f"{when.day} {when:%b} {clock(at)}"


def clock(at: int) -> str:
    """Format the time of day: `14:55`, or `14:55:07` if the seconds are not zero."""
    when = _utc(at)
    return moment(at) if when is None else f"{when:%H:%M:%S}" if at % 60 else f"{when:%H:%M}"


def day(at: int) -> str:
    """Format the date: `22 Nov 2026`."""
    when = _utc(at)
    return moment(at) if when is None else f"{when.day} {when:%b %Y}"


def on_one_day(start: int, end: int) -> bool:
    first, last = _utc(start), _utc(end)
    return first is not None and last is not None and first.date() == last.date()


def time_slug(at: int, other: int | None = None) -> str:
    """Format a time for ids: `2026-11-22-1500`, or `2026-11-22-150007` if the seconds are not zero. Leave out the date
    if `other` is on the same day."""
    when, then = _utc(at), None if other is None else _utc(other)
    if when is None:
        return str(at)
    clock = f"{when:%H%M%S}" if at % 60 else f"{when:%H%M}"
    return clock if then is not None and then.date() == when.date() else f"{when:%Y-%m-%d}-{clock}"


def duration(seconds: int) -> str:
    """Format a duration in the largest unit that divides it: `2 hours`, `90 minutes`, `75 seconds`."""
    for size, name in ((3600, "hour"), (60, "minute")):
        if seconds and seconds % size == 0:
            return _many(seconds // size, name)
    return _many(seconds, "second")


def _many(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _utc(at: int) -> datetime | None:
    return datetime.fromtimestamp(at, UTC) if 0 <= at <= LAST_SECOND else None


# ---------------------------------------------------------------- outcomes


def outcomes_of(kind: MarketKind, bounds: Sequence[int]) -> tuple[OutcomeWords, ...]:
    """Return a market's outcomes in the contract's order."""
    if kind in BINARY_KEYS:
        return tuple(OutcomeWords(key, key.capitalize(), key.capitalize()) for key in BINARY_KEYS[kind])
    lowers, uppers = (None, *bounds), (*bounds, None)
    named = [_bucket(lower, upper) for lower, upper in zip(lowers, uppers, strict=True)]
    if any(len(each.key) > MAX_KEY for each in named) or len({each.key for each in named}) < len(named):
        return tuple(OutcomeWords(f"b{at}", e.label, e.short_label, e.lower, e.upper) for at, e in enumerate(named))
    return tuple(named)


def _bucket(lower: int | None, upper: int | None) -> OutcomeWords:
    if lower is None and upper is None:
        return OutcomeWords("any", "Any", "Any")
    if lower is None:
        assert upper is not None
        top = usd_label(upper)
        return OutcomeWords(f"under-{level_slug(upper)}", f"Under {top}", f"<{top}", None, upper)
    low = usd_label(lower)
    if upper is None:
        return OutcomeWords(f"from-{level_slug(lower)}", f"{low} or more", f"≥{low}", lower, None)
    top = usd_label(upper)
    key = f"{level_slug(lower)}-to-{level_slug(upper)}"
    return OutcomeWords(key, f"{low} to under {top}", f"{low}–{top}", lower, upper)

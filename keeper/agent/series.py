"""The standing series of agent markets: which markets should be open now, given the time and the Safe's terms for the
feed. Pure.

    touch    threshold a little above, over the hour that begins at the next half hour
    day      threshold at about the present value, decided by the reading at a midnight UTC
    far      threshold about twice the present value, over the three months that begin at the next month
    ladder   five to eight ranges around the present value, decided at the end of a week
    hour     up or down over each round (an hour unless set otherwise)
    quick    up or down over ten minutes, on local deployments only

On a feed without a publisher, touch and far are settled as soon as a reading reaches their target. On a feed with one,
the reading at their end decides.

Bets end before the deciding measurement begins, by a minute plus the feed's memory. Each market is a turn, defined by
when its measurement begins. The turns of a series follow each other at a fixed period, and a market is listed while
bets on the previous one are still open. A series has one market for each feed and turn: its slot. Values have 8
decimals; times are Unix seconds, UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from core.agent.book import MARGIN, FeedTerms
from core.agent.words import FeedSubject
from core.contracts.statuses import MarketKind
from keeper.sources import LatestRound

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY

QUICK_SECONDS = 600
MIN_OPEN_SECONDS = 45
"""A market with less time left for bets is not listed: it would close before anyone saw it."""
OVERLAP_SECONDS = 180
"""The next market is listed this long before bets end."""


class Series(StrEnum):
    TOUCH = "touch"
    DAY = "day"
    FAR = "far"
    LADDER = "ladder"
    HOUR = "hour"
    QUICK = "quick"


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed that the Safe allows. `key` is like `BNKR/market_cap`, `last` is its newest round, and `reserved` the sum
    of its unsettled markets' pot caps."""

    key: str
    address: str
    terms: FeedTerms
    last: LatestRound | None = None
    reserved: int = 0

    @property
    def symbol(self) -> str:
        return FeedSubject(self.key).symbol

    @property
    def metric(self) -> str:
        return FeedSubject(self.key).metric


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one market of a series on a feed, identified by when that market ends."""

    series: Series
    key: str  # of the feed: two feeds of one token have a market each
    ends_at: int

    @property
    def subject(self) -> str:
        return f"agent:list:{self.key}:{self.series}:{self.ends_at}"


@dataclass(frozen=True, slots=True)
class Turn:
    """A market of a series. `begins_at` is when its deciding measurement begins."""

    slot: Slot
    begins_at: int
    closes_at: int

    @property
    def ends_at(self) -> int:
        return self.slot.ends_at


@dataclass(frozen=True, slots=True)
class Design:
    """A market's question, without its weights."""

    kind: MarketKind
    target: int = 0
    bounds: tuple[int, ...] = ()
    early_resolvable: bool = False


# ---------------------------------------------------------------- which turns


def open_turns(series: Series, feed: Feed, now: int, round_seconds: int = HOUR) -> list[Turn]:
    """Return the turn that takes bets now and, if its bets end soon, the next turn."""
    current = _turn(series, feed, now + MIN_OPEN_SECONDS, round_seconds)
    if current.closes_at - now > OVERLAP_SECONDS:
        return [current]
    return [current, _turn(series, feed, current.closes_at + 1, round_seconds)]


def _turn(series: Series, feed: Feed, moment: int, round_seconds: int) -> Turn:
    """Return the first turn whose bets end at `moment` or later."""
    ahead = MARGIN + feed.terms.memory
    begins_at = _begins(series, feed, moment + ahead, round_seconds)
    slot = Slot(series, feed.key, _ends(series, feed, begins_at, round_seconds))
    return Turn(slot, begins_at, begins_at - ahead)


def round_length(feed: Feed, seconds: int) -> int:
    """Return the length of a feed's up/down round: the first multiple of `seconds` of at least twice the feed's
    memory."""
    return boundary(max(seconds, 2 * feed.terms.memory), seconds)


def _begins(series: Series, feed: Feed, moment: int, round_seconds: int) -> int:
    """Return when the measurement begins in the first turn that begins at or after `moment`."""
    if series is Series.TOUCH:
        return boundary(moment, HOUR // 2)
    if series is Series.DAY:
        return boundary(moment + 2 * HOUR, DAY) - 2 * HOUR
    if series is Series.LADDER:
        # 1970-01-01 was a Thursday, and weeks begin on a Monday.
        return boundary(moment + DAY - 4 * DAY, WEEK) + 4 * DAY - DAY
    if series is Series.FAR:
        return _month(moment - 1, 1)
    return boundary(moment, round_length(feed, round_seconds))


def _ends(series: Series, feed: Feed, begins_at: int, round_seconds: int) -> int:
    """Return when a turn's measurement ends. It is longer than a turn and its overlap, so bets are open for at most
    half of a market's life."""
    if series is Series.TOUCH:
        return begins_at + HOUR
    if series is Series.DAY:
        return begins_at + 2 * HOUR + DAY
    if series is Series.LADDER:
        return begins_at + DAY + WEEK
    if series is Series.FAR:
        return _month(begins_at, 3)
    return begins_at + round_length(feed, round_seconds)


def boundary(moment: int, period: int) -> int:
    """Return the first multiple of `period` at or after `moment`."""
    return -(-moment // period) * period


def _month(moment: int, on: int) -> int:
    """Return the first second of the month `on` months after that of `moment`."""
    when = datetime.fromtimestamp(moment, UTC)
    year, month = divmod(when.year * 12 + when.month - 1 + on, 12)
    return int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp())


# ---------------------------------------------------------------- designs


def design_of(series: Series, feed: Feed, value: int, position: int) -> Design:
    """Return the question of a series at the present value. A ladder's bounds vary with the feed's `position`."""
    early = feed.terms.step != 0 and not feed.terms.published
    match series:
        case Series.LADDER:
            return Design(MarketKind.RANGE, bounds=ladder(value, 5 + position * 3 % 4))
        case Series.TOUCH:
            return Design(MarketKind.THRESHOLD, significant(value * 1_012 // 1_000, 3, up=True), early_resolvable=early)
        case Series.DAY:
            return Design(MarketKind.THRESHOLD, significant(value, 2, up=False))
        case Series.FAR:
            return Design(MarketKind.THRESHOLD, landmark(value * 18 // 10), early_resolvable=early)
        case _:
            return Design(MarketKind.DIRECTION)


def ladder(value: int, buckets: int) -> tuple[int, ...]:
    """Return a ladder's bounds: 6% apart around the value, rounded to three digits."""
    count = buckets - 1
    return tuple(significant(value * (100 + 3 * (2 * k - (count - 1))) // 100, 3, up=False) for k in range(count))


def significant(value: int, digits: int, *, up: bool) -> int:
    """Round a value above 0 to this many leading digits: up if `up`, else to the nearest."""
    unit: int = 10 ** max(0, len(str(value)) - digits)
    return -(-value // unit) * unit if up else (value + unit // 2) // unit * unit


def landmark(value: int) -> int:
    """Return the first of 1, 2, 5, 10, ... times a power of ten at or above `value`."""
    unit: int = 10 ** (len(str(value)) - 1)
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def rises(bounds: Sequence[int]) -> bool:
    """Return whether a ladder's bounds are positive and rising. For a tiny value, two bounds may be equal."""
    return all(low < high for low, high in zip((0, *bounds), bounds, strict=False))

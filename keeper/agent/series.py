"""The standing series of agent markets: which market each of them should have open now, worked out from the clock and
the feed's value. Pure.

    touch    threshold a little above, early resolvable, this hour or the next: often settled while you watch
    day      threshold at about the present value, decided by the reading at midnight UTC
    far      threshold about twice the present value, early resolvable, to the end of the year
    ladder   five to eight ranges around the present value, to the end of the week
    hour     up or down over each round (an hour unless set otherwise)
    quick    up or down over ten minutes; on local deployments only

Values have 8 decimals, times are Unix seconds, UTC. A series has one market per token and deadline, its slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from core.market_document import CATEGORIES, MarketDocument, OutcomeLabel
from core.mirror.settlement import Kind

ONE = 10**8
HOUR = 3600
DAY = 24 * HOUR

QUICK_SECONDS = 600
LEAST_LEAD_SECONDS = 45
"""A round listed later than this before its start would start before anybody saw it."""

TOKEN_NAMES = {"BNKR": "Bankr", "AIXBT": "aixbt", "VIRTUAL": "Virtuals Protocol"}

YES_NO = (OutcomeLabel("yes", "Yes", "Yes"), OutcomeLabel("no", "No", "No"))
UP_DOWN = (OutcomeLabel("up", "Up", "Up"), OutcomeLabel("down", "Down", "Down"))


class Series(StrEnum):
    TOUCH = "touch"
    DAY = "day"
    FAR = "far"
    LADDER = "ladder"
    HOUR = "hour"
    QUICK = "quick"


@dataclass(frozen=True, slots=True)
class Feed:
    """An observation feed: `key` is like `BNKR/market_cap`."""

    key: str
    address: str

    @property
    def symbol(self) -> str:
        return self.key.partition("/")[0].upper()

    @property
    def metric(self) -> str:
        return self.key.partition("/")[2]

    @property
    def name(self) -> str:
        return TOKEN_NAMES.get(self.symbol, self.symbol)


@dataclass(frozen=True, slots=True)
class VenueTerms:
    """What every market is listed with: basis points, seconds, token units."""

    fee_bps: int
    void_delay: int
    virtual_liquidity: int


@dataclass(frozen=True, slots=True)
class Design:
    """A market to list. Fields of the specification are the contract's."""

    series: Series
    feed: Feed
    document: MarketDocument
    kind: Kind
    closes_at: int
    start_at: int = 0
    target: int = 0
    bounds: tuple[int, ...] = ()
    early_resolvable: bool = False
    max_age: int = HOUR

    @property
    def outcomes(self) -> int:
        return len(self.document.outcomes)

    def spec(self, terms: VenueTerms, opens_at: int) -> dict[str, object]:
        """MarketSpec by component name."""
        return {
            "kind": int(self.kind),
            "feed": self.feed.address,
            "target": self.target,
            "bounds": list(self.bounds),
            "earlyResolvable": self.early_resolvable,
            "opensAt": opens_at,
            "closesAt": self.closes_at,
            "startAt": self.start_at,
            "maxAge": self.max_age,
            "voidDelay": terms.void_delay,
            "feeBps": terms.fee_bps,
            "outcomes": self.outcomes,
            "virtualLiquidity": terms.virtual_liquidity,
        }


@dataclass(frozen=True, slots=True)
class Slot:
    """What a series has at most one market for."""

    series: Series
    symbol: str
    closes_at: int

    @property
    def subject(self) -> str:
        return f"agent:list:{self.symbol}:{self.series}:{self.closes_at}"


# ---------------------------------------------------------------- which slots


def round_slot(symbol: str, now: int, seconds: int, series: Series = Series.HOUR) -> tuple[Slot, int]:
    """The next round that can still be listed, and when it starts: it is listed while the one before it runs."""
    start = boundary(now + LEAST_LEAD_SECONDS, seconds)
    return Slot(series, symbol, start + seconds), start


def deadline(series: Series, now: int) -> int:
    """When the series' present market ends; always far enough ahead to be worth a bet."""
    if series is Series.TOUCH:
        return boundary(now + 40 * 60, HOUR)
    if series is Series.DAY:
        return boundary(now + 4 * HOUR, DAY)
    if series is Series.LADDER:
        # 1970-01-01 was a Thursday: weeks that begin on a Monday are four days on.
        return boundary(now + DAY - 4 * DAY, 7 * DAY) + 4 * DAY
    if series is Series.FAR:
        moment = datetime.fromtimestamp(now, UTC) + timedelta(days=21)
        return int(datetime(moment.year + 1, 1, 1, tzinfo=UTC).timestamp())
    raise ValueError(f"{series} is made of rounds")


def boundary(moment: int, period: int) -> int:
    """The first multiple of `period` at or after `moment`."""
    return -(-moment // period) * period


# ---------------------------------------------------------------- designs


def standing(series: Series, feed: Feed, value: int, now: int, position: int) -> Design:
    """The market of a threshold or ladder series at the present value. `position` of the feed varies its ladder."""
    closes_at = deadline(series, now)
    if series is Series.LADDER:
        return _ladder(feed, value, closes_at, 5 + position * 3 % 4)
    if series is Series.TOUCH:
        target = significant(value * 1_012 // 1_000, 3, up=True)
        return _threshold(series, feed, target, closes_at, early=True, max_age=HOUR // 2)
    if series is Series.DAY:
        return _threshold(series, feed, significant(value, 2, up=False), closes_at, early=False)
    return _threshold(series, feed, landmark(value * 18 // 10), closes_at, early=True)


def up_or_down(feed: Feed, slot: Slot, start: int) -> Design:
    """A round from `start` to the slot's end."""
    seconds = slot.closes_at - start
    length = "" if seconds == HOUR else f"-{seconds // 60}m"
    when = f"{_day(start)} {_clock(start)} to {_clock(slot.closes_at)} UTC"
    document = MarketDocument(
        id=f"{feed.symbol.lower()}-up-or-down{length}-{_day(start)}-{_clock(start).replace(':', '')}",
        question=f"Will {feed.symbol} go up or down, {when}?",
        short_title=f"{feed.symbol} up or down, {_clock(start)}",
        summary=(
            f"Up if {feed.name}'s {_metric(feed)} at {_clock(slot.closes_at)} UTC is above what it was at "
            f"{_clock(start)} UTC, down if it is below; every stake is given back if it is the same."
        ),
        category=CATEGORIES[Kind.DIRECTION],
        token_symbol=feed.symbol,
        token_name=feed.name,
        outcomes=UP_DOWN,
        deadline_label=f"at {_clock(slot.closes_at)} UTC",
        source=_source(feed),
        series=slot.series,
    )
    return Design(slot.series, feed, document, Kind.DIRECTION, slot.closes_at, start_at=start, max_age=HOUR // 4)


def _threshold(series: Series, feed: Feed, target: int, closes_at: int, *, early: bool, max_age: int = HOUR) -> Design:
    level, by = short_dollars(target), _deadline_words(closes_at)
    if early:
        question = f"Will {feed.symbol} reach a {_metric(feed)} of {level} by {by}?"
        rule = f"Yes as soon as a reading of {level} or more is recorded before the deadline, else no."
    else:
        question = f"Will {feed.symbol}'s {_metric(feed)} be {level} or more at {by}?"
        rule = f"Yes if the reading in effect at the deadline is {level} or more, else no."
    document = MarketDocument(
        id=f"{feed.symbol.lower()}-{_slug(level)}-mcap-{_when(closes_at)}",
        question=question,
        short_title=f"{feed.symbol} {level} by {_short(closes_at)}",
        summary=rule,
        category=CATEGORIES[Kind.THRESHOLD],
        token_symbol=feed.symbol,
        token_name=feed.name,
        outcomes=YES_NO,
        deadline_label=f"by {_short(closes_at)}" if early else f"at {_short(closes_at)}",
        source=_source(feed),
        series=series,
    )
    return Design(
        series, feed, document, Kind.THRESHOLD, closes_at, target=target, early_resolvable=early, max_age=max_age
    )


def _ladder(feed: Feed, value: int, closes_at: int, buckets: int) -> Design:
    """`buckets` ranges, their bounds 6% apart around the value."""
    count = buckets - 1
    bounds = tuple(significant(value * (100 + 3 * (2 * k - (count - 1))) // 100, 3, up=False) for k in range(count))
    document = MarketDocument(
        id=f"{feed.symbol.lower()}-mcap-range-{_when(closes_at)}",
        question=f"Where will {feed.symbol}'s {_metric(feed)} be at {_deadline_words(closes_at)}?",
        short_title=f"{feed.symbol} range, {_short(closes_at)}",
        summary="The range with the reading in effect at the deadline wins; a bound belongs to the range above it.",
        category=CATEGORIES[Kind.RANGE],
        token_symbol=feed.symbol,
        token_name=feed.name,
        outcomes=_buckets(bounds),
        deadline_label=f"at {_short(closes_at)}",
        source=_source(feed),
        series=Series.LADDER,
    )
    return Design(Series.LADDER, feed, document, Kind.RANGE, closes_at, bounds=bounds)


def _buckets(bounds: Sequence[int]) -> tuple[OutcomeLabel, ...]:
    levels = [short_dollars(bound) for bound in bounds]
    first = OutcomeLabel(f"under-{_slug(levels[0])}", f"Under {levels[0]}", f"<{levels[0]}")
    last = OutcomeLabel(f"from-{_slug(levels[-1])}", f"{levels[-1]} or more", f"≥{levels[-1]}")
    between = [
        OutcomeLabel(f"{_slug(low)}-to-{_slug(high)}", f"{low} to {high}", f"{low}–{high}")
        for low, high in itertools.pairwise(levels)
    ]
    return (first, *between, last)


# ---------------------------------------------------------------- numbers and words


def significant(value: int, digits: int, *, up: bool) -> int:
    """Rounded to so many leading digits, up or to the nearest; `value` above 0."""
    unit: int = 10 ** max(0, len(str(value)) - digits)
    return -(-value // unit) * unit if up else (value + unit // 2) // unit * unit


def landmark(value: int) -> int:
    """The first of 1, 2, 5, 10, ... times a power of ten at or above `value`."""
    unit: int = 10 ** (len(str(value)) - 1)
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def short_dollars(value: int) -> str:
    """`$82.4M`, exactly; values are rounded before they come here."""
    scales = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
    unit, letter = next((each for each in scales if value >= each[0] * ONE), (1, ""))
    whole, rest = divmod(value, unit * ONE)
    digits = f"{rest:0{len(str(unit * ONE)) - 1}d}".rstrip("0")
    return f"${whole}{'.' + digits if digits else ''}{letter}"


def _slug(level: str) -> str:
    return level.removeprefix("$").replace(".", "-").lower()


def _metric(feed: Feed) -> str:
    return "market cap" if feed.metric == "market_cap" else feed.metric.replace("_", " ")


def _source(feed: Feed) -> str:
    return f"{feed.key} observation feed"


def _midnight(moment: int) -> bool:
    return moment % DAY == 0


def _day(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def _clock(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M")


def _when(closes_at: int) -> str:
    """For ids. Midnight is the end of the day before it."""
    return _day(closes_at - 1) if _midnight(closes_at) else f"{_day(closes_at)}-{_clock(closes_at).replace(':', '')}"


def _deadline_words(closes_at: int) -> str:
    if _midnight(closes_at):
        return f"the end of {_day(closes_at - 1)} UTC"
    return f"{_clock(closes_at)} UTC on {_day(closes_at)}"


def _short(closes_at: int) -> str:
    if _midnight(closes_at):
        return datetime.fromtimestamp(closes_at - 1, UTC).strftime("%b %d").replace(" 0", " ")
    return f"{_clock(closes_at)} UTC"

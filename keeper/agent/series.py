"""The standing series of agent markets: which markets should be open now, given the time and the Safe's terms for the
feed. All functions are pure.

    touch    threshold a little above, over the hour that begins at the next half hour
    day      threshold at about the present value, decided by the reading at a midnight UTC
    far      threshold about twice the present value, over the three months that begin at the next month
    ladder   five to eight ranges around the present value, decided at the end of a week
    hour     up or down over each round (an hour unless set otherwise)
    quick    up or down over ten minutes, on local deployments only

On a feed without a publisher, touch and far are settled as soon as a reading reaches their target. On a feed with a
publisher, the reading at their end decides.

Betting ends a minute plus the feed's memory before the deciding measurement begins. Each market is a turn, defined by
when its measurement begins. The turns of a series follow each other at a fixed period. A market is listed while
betting on the previous one is still open. A slot is the place for the one market of a series, feed and turn. Values
have 8 decimals; times are Unix seconds, UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Final

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
    """A feed that the Safe allows. `key` is like `BNKR/market_cap`, `last` is the feed's newest round, and `reserved`
    is the sum of its unsettled markets' pot caps."""

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
    """Return the turn that is taking bets now and, if its betting ends soon, the next turn."""
    current = _turn(series, feed, now + MIN_OPEN_SECONDS, round_seconds)
    if current.closes_at - now > OVERLAP_SECONDS:
        return [current]
    return [current, _turn(series, feed, current.closes_at + 1, round_seconds)]


def _turn(series: Series, feed: Feed, moment: int, round_seconds: int) -> Turn:
    """Return the first turn whose betting ends at `moment` or later."""
    ahead = MARGIN + feed.terms.memory
    begins_at = _begins(series, feed, moment + ahead, round_seconds)
    slot = Slot(series, feed.key, _ends(series, feed, begins_at, round_seconds))
    return Turn(slot, begins_at, begins_at - ahead)


def round_length(feed: Feed, seconds: int) -> int:
    """Return the length of a feed's up/down round: the smallest multiple of `seconds` that is at least twice the feed's
    memory."""
    return boundary(max(seconds, 2 * feed.terms.memory), seconds)


def _begins(series: Series, feed: Feed, moment: int, round_seconds: int) -> int:
    """Return the first time at or after `moment` when a turn's measurement begins."""
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
    """Return when a turn's measurement ends. The measurement lasts longer than betting on the turn, so betting is open
    for at most half of a market's life."""
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
    return -(-moment // period) * period


def _month(moment: int, on: int) -> int:
    """Return the first second of the month that is `on` months after the month of `moment`."""
    when = datetime.fromtimestamp(moment, UTC)
    year, month = divmod(when.year * 12 + when.month - 1 + on, 12)
    return int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp())


# ---------------------------------------------------------------- designs


def design_of(series: Series, feed: Feed, value: int, position: int) -> Design:
    """Return the question that this series asks at the current value. A ladder's bounds also depend on `position`."""
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
    """Return a ladder's bounds: 6% apart around the value, rounded to three significant digits."""
    count = buckets - 1
    return tuple(significant(value * (100 + 3 * (2 * k - (count - 1))) // 100, 3, up=False) for k in range(count))


def significant(value: int, digits: int, *, up: bool) -> int:
    """Round a positive value to this many significant digits: up if `up`, else to the nearest."""
    unit: int = 10 ** max(0, len(str(value)) - digits)
    return -(-value // unit) * unit if up else (value + unit // 2) // unit * unit


def landmark(value: int) -> int:
    """Return the first of 1, 2, 5, 10, ... times a power of ten at or above `value`."""
    unit: int = 10 ** (len(str(value)) - 1)
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def rises(bounds: Sequence[int]) -> bool:
    """Return whether a ladder's bounds are positive and rising. For a tiny value, two bounds may be equal."""
    return all(low < high for low, high in zip((0, *bounds), bounds, strict=False))


# ---------------------------------------------------------------- weights

# A market is listed with a prior: virtual weights, which set an outcome's price before the first stake, and how far a
# stake moves the price. The model: the value follows a geometric Brownian motion without drift. So a threshold at the
# end has the price of a digital option, and a range the difference of two such prices. An early-resolvable threshold
# has the probability that the value touches it within its interval, monitored continuously. A direction is a fair coin,
# because its start is in the future.
#
# The model ignores jumps, news, fat tails and the spacing of a feed's rounds, and the true volatility is unknown. So a
# part of every prior is spread evenly over all outcomes, and weights stay within bounds. While weights are small, a
# wrong prior costs honest bettors little: the study in docs/decisions/0007 used priors that are wrong by a factor of
# 1.6 in the odds.

# In units per outcome. The study found it fair to early and late bettors alike.
AVERAGE_WEIGHT: Final = 10 * 10**6

# Per year: between large currencies (0.5) and small tokens (1.5).
VOLATILITY: Final = 0.8

# The part of a prior that is spread evenly over all outcomes.
UNIFORM_SHARE: Final = 0.1

YEAR: Final = 365.25 * 86_400
# Steps of the integral over the value at the start of an early interval.
STEPS: Final = 64
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class WeightBounds:
    minimum: int
    maximum: int
    average: int = AVERAGE_WEIGHT


def weights_for(
    kind: MarketKind,
    outcomes: int,
    limits: WeightBounds,
    *,
    value: int = 0,
    seconds: int = 0,
    volatility: float = VOLATILITY,
    target: int = 0,
    bounds: Sequence[int] = (),
    early_seconds: int | None = None,
) -> tuple[int, ...]:
    """Return integer weights within the limits. Their sum is exactly `outcomes * average`.

    `value`, `target` and `bounds` are in the feed's units, and `seconds` is the time until the market's end.
    `early_seconds` is the time until an early-resolvable market's interval starts, or None if only the reading at the
    end counts. All weights are equal if there is no value, or no time in which the value could move.
    """
    can_move = value > 0 and seconds > 0 and volatility > 0
    if kind is MarketKind.DIRECTION or not can_move:
        prior = [1 / outcomes] * outcomes
    elif kind is MarketKind.RANGE:
        above = [1.0, *(_probability_above(value, bound, seconds, volatility) for bound in bounds), 0.0]
        prior = [upper - lower for upper, lower in pairwise(above)]
    else:
        yes = (
            _probability_above(value, target, seconds, volatility)
            if early_seconds is None
            else _touch_probability_between(value, target, max(0, early_seconds), seconds, volatility)
        )
        prior = [yes, 1 - yes]
    return _clamped([(1 - UNIFORM_SHARE) * p + UNIFORM_SHARE / outcomes for p in prior], limits)


def _probability_above(value: float, level: float, seconds: float, volatility: float) -> float:
    deviation = volatility * sqrt(seconds / YEAR)
    return _NORMAL.cdf((log(value / level) - deviation**2 / 2) / deviation)


def _touch_probability(value: float, level: float, seconds: float, volatility: float) -> float:
    """Return the probability that the value reaches a level within `seconds`, by the reflection principle. The value
    has no drift, so its logarithm has a drift of -deviation**2 / 2."""
    if value >= level:
        return 1.0
    if seconds <= 0:
        return 0.0
    deviation = volatility * sqrt(seconds / YEAR)
    distance = log(level / value)
    mirrored = value / level * _NORMAL.cdf((-distance + deviation**2 / 2) / deviation)
    return min(1.0, _probability_above(value, level, seconds, volatility) + mirrored)


def _touch_probability_between(value: float, level: float, begins: float, ends: float, volatility: float) -> float:
    """Return the probability that the value reaches a level between two moments, integrated over the value at the first
    moment."""
    if begins <= 0:
        return _touch_probability(value, level, ends, volatility)
    deviation = volatility * sqrt(begins / YEAR)
    total = 0.0
    for step in range(STEPS):
        quantile = _NORMAL.inv_cdf((step + 0.5) / STEPS)
        start = value * exp(deviation * quantile - deviation**2 / 2)
        total += _touch_probability(start, level, ends - begins, volatility)
    return total / STEPS


def _clamped(prior: Sequence[float], limits: WeightBounds) -> tuple[int, ...]:
    """Return weights within the limits, in proportion to a prior. Each weight is rounded down. The remaining units are
    added one at a time to the heaviest outcomes that are below their limit."""
    outcomes, total = len(prior), len(prior) * limits.average
    if not limits.minimum <= limits.average <= limits.maximum:
        raise ValueError(f"an average of {limits.average} is not between {limits.minimum} and {limits.maximum}")
    low, high = 0.0, total / min(prior)  # at `high` each weight is at its maximum or at the total
    for _ in range(200):  # bisect for the scale at which the clamped weights add up: their sum grows with it
        scale = (low + high) / 2
        if sum(min(limits.maximum, max(limits.minimum, p * scale)) for p in prior) < total:
            low = scale
        else:
            high = scale
    weights = [min(limits.maximum, max(limits.minimum, int(p * low))) for p in prior]  # down
    heaviest = sorted(range(outcomes), key=lambda outcome: -prior[outcome])
    left = total - sum(weights)
    while left:
        for outcome in heaviest:
            step = 1 if left > 0 else -1
            if left and limits.minimum <= weights[outcome] + step <= limits.maximum:
                weights[outcome] += step
                left -= step
    return tuple(weights)

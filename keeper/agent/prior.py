"""A market's prior: the virtual weights that it is listed with.

A weight is not money: it sets an outcome's price before the first stake, and how far a stake moves the price.

**The model.** The value follows a geometric Brownian motion without drift: its expectation is constant, and the
logarithm of its change over `seconds` is normal with the standard deviation `volatility * sqrt(seconds / year)`. So a
threshold at the end has the price of a digital option, and a range has the difference of two such prices. An
early-resolvable threshold has the probability that the value touches it within its interval, monitored continuously. A
direction is a fair coin: its start is in the future.

**Limits.** The model ignores jumps, news, fat tails and the spacing of a feed's rounds, and the true volatility is
unknown. So a part of every prior, `UNIFORM_SHARE`, is spread evenly over all outcomes, and weights stay within bounds.
While weights are small, a wrong prior costs honest bettors little: the study in docs/decisions/0007 used priors that
are wrong by a factor of 1.6 in the odds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Final

from core.contracts.statuses import MarketKind

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

    `value`, `target` and `bounds` are in the feed's units, and `seconds` is the time until the deciding end.
    `early_seconds` is the time until an early-resolvable market's interval starts, or None if only the end counts. All
    weights are equal if there is no value, or no time in which it could move.
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
    """Return the probability that the value reaches a level from now on, by the reflection principle. The value has no
    drift, so its logarithm has a drift of -deviation**2 / 2."""
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
    one."""
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
    """Return weights within the limits, in proportion to a prior. Each is rounded down; the units that remain go, one
    each, to the heaviest outcomes below their limit."""
    outcomes, total = len(prior), len(prior) * limits.average
    if not limits.minimum <= limits.average <= limits.maximum:
        raise ValueError(f"an average of {limits.average} is not within {limits.minimum} and {limits.maximum}")
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

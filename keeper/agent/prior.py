"""The prior of a market, as the virtual weights it is listed with.

A weight is no money: it says what an outcome costs before the first stake, and how far a stake moves that. The
shares of the weights are the stated prior; their average is how much money it takes to move it.

**The model.** The value moves as a geometric Brownian motion without drift: its expectation stays where it is, and the
logarithm of its change over `seconds` is normal with the standard deviation `volatility * sqrt(seconds / year)`. So a
threshold at the end has the price of a digital option, a range the differences of such prices, and an early-resolvable
threshold that of touching it within its interval, watched without pause. A direction is a fair coin: its start lies in
the future.

**What it does not know.** Jumps, news, fat tails, the spacing of a feed's rounds, and the true volatility: so a part of
every prior, `UNSURE`, is spread over all outcomes alike, and a weight is never outside the bounds it is given. A prior
that is off costs the honest little while its weights are small: the study in docs/decisions/0007 was measured with
priors that are off by a factor of 1.6 in the odds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Final

from core.contracts.statuses import MarketKind

# Units an outcome: what the study found fair to early and late bettors alike.
AVERAGE_WEIGHT: Final = 10 * 10**6

# Of a year, where the lister knows nothing better: between large currencies (0.5) and small tokens (1.5).
VOLATILITY: Final = 0.8

# The part of a prior that is spread over all outcomes alike.
UNSURE: Final = 0.1

YEAR: Final = 365.25 * 86_400
# Of the integral over where the value is when an early interval begins.
STEPS: Final = 64
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class WeightBounds:
    """What an outcome may weigh, in units."""

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
    """Integer weights within the limits; their sum is exactly `outcomes * average`.

    `value`, `target` and `bounds` are in the feed's units. `seconds` is from now to the end that decides;
    `early_seconds` from now to the start of an early-resolvable market's interval, None where only the end counts.
    Without a value or a time to move in there is nothing to go by, and all outcomes weigh alike.
    """
    can_move = value > 0 and seconds > 0 and volatility > 0
    if kind is MarketKind.DIRECTION or not can_move:
        prior = [1 / outcomes] * outcomes
    elif kind is MarketKind.RANGE:
        above = [1.0, *(_above(value, bound, seconds, volatility) for bound in bounds), 0.0]
        prior = [upper - lower for upper, lower in pairwise(above)]
    else:
        yes = (
            _above(value, target, seconds, volatility)
            if early_seconds is None
            else _touched(value, target, max(0, early_seconds), seconds, volatility)
        )
        prior = [yes, 1 - yes]
    return _within([(1 - UNSURE) * p + UNSURE / outcomes for p in prior], limits)


def _above(value: float, level: float, seconds: float, volatility: float) -> float:
    """Return the probability of ending at or above a level."""
    deviation = volatility * sqrt(seconds / YEAR)
    return _NORMAL.cdf((log(value / level) - deviation**2 / 2) / deviation)


def _touches(value: float, level: float, seconds: float, volatility: float) -> float:
    """Return the probability of being at or above a level at some moment from now on: by the reflection principle, with
    the drift of -deviation**2 / 2 that the logarithm of a driftless value has."""
    if value >= level:
        return 1.0
    if seconds <= 0:
        return 0.0
    deviation = volatility * sqrt(seconds / YEAR)
    distance = log(level / value)
    mirrored = value / level * _NORMAL.cdf((-distance + deviation**2 / 2) / deviation)
    return min(1.0, _above(value, level, seconds, volatility) + mirrored)


def _touched(value: float, level: float, begins: float, ends: float, volatility: float) -> float:
    """Return the probability of touching a level between two moments: over where the value is at the first of them."""
    if begins <= 0:
        return _touches(value, level, ends, volatility)
    deviation = volatility * sqrt(begins / YEAR)
    total = 0.0
    for step in range(STEPS):
        quantile = _NORMAL.inv_cdf((step + 0.5) / STEPS)
        there = value * exp(deviation * quantile - deviation**2 / 2)
        total += _touches(there, level, ends - begins, volatility)
    return total / STEPS


def _within(prior: Sequence[float], limits: WeightBounds) -> tuple[int, ...]:
    """Return weights in proportion to a prior as far as the limits allow, adding up to the outcomes times the average.

    A part goes out evenly to what is not yet at its limit; what rounding down leaves goes to the heaviest that can take
    it, a unit each.
    """
    outcomes, total = len(prior), len(prior) * limits.average
    if not limits.minimum <= limits.average <= limits.maximum:
        raise ValueError(f"an average of {limits.average} is not within {limits.minimum} and {limits.maximum}")
    low, high = 0.0, total / min(prior)  # there each is at its maximum, or weighs as much as all should
    for _ in range(200):  # the scale at which clamped weights add up: they grow with it
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

"""What a market of the study is about: a fair event whose probability moves, and a crowd that bets on it.

**The event.** A driftless Brownian motion X is above zero at the end of the measured time, which runs from 0 to 1. At
time s the probability is Phi(X / sqrt(1 - s)): a martingale that begins at one half and ends at 0 or 1.

**When bets are taken** is a `Regime`: how much of the betting time lies before anything is measured, and how much of
the measured time has passed at its end.

**The crowd.** Forty bets at random moments, 20 USD in the median. Each bettor knows the probability of the moment up to
a normal error of 0.5 in the log-odds. Half of them bet by *belief*: on an outcome drawn with their estimate, whatever
it pays. The other half bet by *value*: where estimate times what they project to be paid is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, exp, log, sqrt
from random import Random
from typing import Final

from core.money import USD

STEPS: Final = 100
"""Of the measured time."""
MAX_BET: Final = 100.0
"""The most one stock entry takes, and so the most anybody of the crowd bets, in USD."""


@dataclass(frozen=True, slots=True)
class Regime:
    """When bets are taken. `before`: the part of the betting time in which nothing is measured yet; `until`: how much
    of the measured time has passed when bets end."""

    name: str
    before: float
    until: float

    def measured(self, u: float) -> float:
        """How much of the measured time has passed at a moment of the betting time, both from 0 to 1."""
        return 0.0 if u <= self.before else self.until * (u - self.before) / (1 - self.before)


BELL: Final = Regime("bell", 0.5, 1.0)
"""Until the very end, as on stock markets: half of the bets before the opening bell, half during the session."""
HALF: Final = Regime("half", 0.0, 0.5)
"""At most half of what can still move, as the lister of agent markets has it for thresholds and ranges."""
BEFORE: Final = Regime("before", 1.0, 0.0)
"""Nothing is measured while bets are taken, as in agent markets on a direction."""


@dataclass(frozen=True, slots=True)
class Bettors:
    """A crowd: how many bet, how much, how well they know, and which part of them looks at what is paid."""

    bets: int = 40
    median_usd: float = 20.0
    spread: float = 0.8
    noise: float = 0.5
    by_value: float = 0.5

    @property
    def mean_usd(self) -> float:
        """Of one bet, but for what the limits cut off."""
        return self.median_usd * exp(self.spread**2 / 2)


@dataclass(frozen=True, slots=True)
class Bettor:
    """One of the crowd: when, how much, with what error, and how it would choose."""

    u: float
    amount: int
    error: float
    by_value: bool
    draw: float


@dataclass(frozen=True, slots=True)
class Draw:
    """One market of the study, as chance made it."""

    path: tuple[float, ...]
    """The probability of UP at each step of the measured time."""
    bettors: tuple[Bettor, ...]

    def probability(self, s: float) -> float:
        return self.path[min(STEPS, round(s * STEPS))]


def drawn(seed: str, crowd: Bettors) -> Draw:
    random = Random(seed)  # noqa: S311 - a study that repeats
    x, path = 0.0, [0.5]
    for step in range(1, STEPS + 1):
        x += random.gauss(0, 1) / sqrt(STEPS)
        path.append(_above(x, 1 - step / STEPS))
    moments = sorted(random.random() for _ in range(crowd.bets))
    bettors = tuple(
        Bettor(
            u=u,
            amount=round(USD * min(MAX_BET, max(1.0, crowd.median_usd * exp(random.gauss(0, crowd.spread))))),
            error=random.gauss(0, crowd.noise),
            by_value=random.random() < crowd.by_value,
            draw=random.random(),
        )
        for u in moments
    )
    return Draw(tuple(path), bettors)


def _above(x: float, left: float) -> float:
    if left <= 1e-9:
        return 1.0 if x > 0 else 0.0
    return (1 + erf(x / sqrt(2 * left))) / 2


def estimated(probability: float, error: float) -> float:
    """A probability as somebody sees it whose log-odds are off by `error`."""
    clipped = min(1 - 1e-9, max(1e-9, probability))
    return 1 / (1 + exp(-(log(clipped / (1 - clipped)) + error)))

"""Means with their uncertainty. Bets of one market share its fate, so a market is the unit that is counted."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

Statistics = dict[str, float]
NINETY_FIVE = 1.96


@dataclass(slots=True)
class Ratio:
    """What is paid for each unit staked, over markets."""

    paid: float = 0.0
    staked: float = 0.0
    _pp: float = 0.0
    _ps: float = 0.0
    _ss: float = 0.0
    markets: int = 0

    def add(self, paid: float, staked: float) -> None:
        """Of one market, all its bets of the kind together."""
        if staked == 0:
            return
        self.paid += paid
        self.staked += staked
        self._pp += paid * paid
        self._ps += paid * staked
        self._ss += staked * staked
        self.markets += 1

    def summary(self) -> Statistics:
        """The expected return for each unit, half the width of its 95% interval, and how many markets had one."""
        if not self.staked:
            return {"mean": 0.0, "pm": 0.0, "markets": 0}
        ratio = self.paid / self.staked
        error = sqrt(max(0.0, self._pp - 2 * ratio * self._ps + ratio * ratio * self._ss)) / self.staked
        return {"mean": round(ratio - 1, 5), "pm": round(NINETY_FIVE * error, 5), "markets": self.markets}


@dataclass(slots=True)
class Mean:
    """An amount in USD for each market."""

    _sum: float = 0.0
    _squares: float = 0.0
    _least: float = float("inf")
    _count: int = 0

    def add(self, value: float) -> None:
        self._sum += value
        self._squares += value * value
        self._least = min(self._least, value)
        self._count += 1

    def summary(self) -> Statistics:
        if not self._count:
            return {"mean": 0.0, "pm": 0.0, "least": 0.0}
        mean = self._sum / self._count
        error = sqrt(max(0.0, self._squares / self._count - mean * mean) / self._count)
        return {"mean": round(mean, 4), "pm": round(NINETY_FIVE * error, 4), "least": round(self._least, 4)}

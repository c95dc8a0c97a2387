"""What docs/fairness.md says in words, as conditions on the figures: where one fails, the page is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Figures = dict[str, Any]


def _mean(f: Figures, name: str, which: str = "all") -> float:
    return float(f["crowds"][name][which]["mean"])


def _quarters(f: Figures, name: str) -> list[float]:
    return [float(each["mean"]) for each in f["crowds"][name]["quarters"]]


def _sure(summary: dict[str, float], sign: int) -> bool:
    """Whether a mean is on one side of nothing, with its interval."""
    return sign * summary["mean"] > summary["pm"]


def _by(cells: dict[str, Any]) -> list[Any]:
    """In the order of the parameter."""
    return [cells[value] for value in sorted(cells, key=int)]


CLAIMS: Final[dict[str, Callable[[Figures], bool]]] = {
    "in a stock market the first quarter gains and the others lose": lambda f: (
        _sure(f["crowds"]["vested/bell"]["quarters"][0], 1)
        and all(_sure(each, -1) for each in f["crowds"]["vested/bell"]["quarters"][1:])
    ),
    "the third quarter of a stock market loses most, the very last bettor less than the last quarter": lambda f: (
        min(_quarters(f, "vested/bell")) == _quarters(f, "vested/bell")[2]
        and _quarters(f, "vested/bell")[3] < _mean(f, "vested/bell", "last") < 0
    ),
    "whoever comes last gains nothing in a stock market, whatever he knows": lambda f: all(
        f["roles"]["vested/bell"][role]["gain"]["mean"] == 0 for role in ("knows, last", "last, exact")
    ),
    "the seed never loses, and earns more than twice the fee": lambda f: (
        f["crowds"]["vested/bell"]["seed"]["least"] > 0 and f["venue"]["stock"]["40"]["times"] > 2
    ),
    "a stock market costs its crowd more than an ordinary pool": lambda f: (
        _mean(f, "vested/bell") < _mean(f, "classic/bell") < 0
    ),
    "both sides first returns the stake again": lambda f: f["roles"]["vested/bell"]["straddle"]["return"]["mean"] > 0.9,
    "fewer blocks make the crowd poorer, and more is refused": lambda f: (
        _falls([-each["all"]["mean"] for each in _by(f["sweep"]["blocks"])])
        and _falls([each["refused"] for each in _by(f["sweep"]["blocks"])])
    ),
    "a larger seed takes more and leaves the first less, and the last quarter as it was": lambda f: (
        _falls([-each["seed"]["mean"] for each in _by(f["sweep"]["seed"])])
        and _falls([each["quarters"][0]["mean"] for each in _by(f["sweep"]["seed"])])
        and _near([each["quarters"][3]["mean"] for each in _by(f["sweep"]["seed"])])
    ),
    "kappa 10 and seed 3 cost the crowd less, at any pace": lambda f: all(
        f["sweep"]["together"]["10/3"][blocks]["all"]["mean"] > f["sweep"]["together"]["30/10"][blocks]["all"]["mean"]
        for blocks in ("2", "10", "5000")
    ),
    "the more bets come before the open, the more the last quarter of a stock market loses": lambda f: _falls(
        [f["sweep"]["before"][before]["quarters"][3]["mean"] for before in ("0", "0.2", "0.5", "0.8")]
    ),
    "kappa refuses little from 10 on": lambda f: f["sweep"]["kappa"]["10"]["refused"] < 0.03,
    "an ordinary pool to the bell pays the last and costs the first": lambda f: (
        _sure(f["crowds"]["classic/bell"]["quarters"][3], 1) and _sure(f["crowds"]["classic/bell"]["quarters"][0], -1)
    ),
    "in agent markets everybody together loses the fee": lambda f: all(
        abs(_mean(f, name) + f["attacks"]["fees"]["deployed"]) < 1e-4 for name in ("shares/half", "shares/before")
    ),
    "the first bettor of an agent market loses a fifth or more": lambda f: (
        max(_mean(f, "shares/half", "first"), _mean(f, "shares/before", "first")) < -0.2
    ),
    "early bettors are worse off on thresholds and better off on directions": lambda f: (
        _quarters(f, "shares/half")[0] < _quarters(f, "shares/half")[3]
        and _quarters(f, "shares/before")[0] > _quarters(f, "shares/before")[3]
    ),
    "who knows the result takes several times what the exactly informed does": lambda f: (
        f["roles"]["shares/half"]["knows, last"]["gain"]["mean"]
        > 3 * f["roles"]["shares/half"]["last, exact"]["gain"]["mean"]
    ),
    "splitting gains nothing, self-opposition nothing in a stock market and cents in an agent market": lambda f: (
        f["collusion"]["split"]["shares"] < 0
        and f["collusion"]["split"]["units"] <= 1
        and f["collusion"]["against"]["vested/bell"]["pays"] == 0
        and all(f["collusion"]["against"][name]["own"]["mean"] < 0.5 for name in ("shares/half", "shares/before"))
    ),
    "both sides first earns on directions and costs on thresholds": lambda f: (
        _sure(f["roles"]["shares/before"]["straddle"]["return"], 1)
        and _sure(f["roles"]["shares/half"]["straddle"]["return"], -1)
        and f["sweep"]["weight"]["shares/before"]["30000000"]["straddle"]["mean"] < 0
    ),
    "a cap of 50 has a margin over 1 and under 2, one of 35 has 2": lambda f: (
        1 < f["attacks"]["fees"]["deployed"] / f["attacks"]["watching"]["50"]["worst"] < 2
        and f["attacks"]["fees"]["deployed"] / f["attacks"]["watching"]["35"]["worst"] > 2
        and f["attacks"]["fees"]["least"] / f["attacks"]["watching"]["30"]["worst"] > 2
    ),
    "a side of forty bets is about what a side should hold at the lesser depth, less where others trade": lambda f: (
        abs(f["venue"]["stock"]["40"]["volume"] / 2 / f["attacks"]["stock"][1]["pot"] - 1) < 0.2
        and f["venue"]["stock"]["40"]["volume"] < f["attacks"]["stock"][1]["pot_every"]
    ),
}


def _falls(values: list[float]) -> bool:
    return values == sorted(values, reverse=True)


def _near(values: list[float]) -> bool:
    return max(values) - min(values) <= 0.01


def broken(figures: Figures) -> list[str]:
    """The sentences that the figures do not bear out."""
    return [sentence for sentence, holds in CLAIMS.items() if not holds(figures)]

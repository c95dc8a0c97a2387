"""The prior as weights: exact sums within bounds, and probabilities that a simulation confirms."""

from __future__ import annotations

from math import exp, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.contracts.statuses import MarketKind
from keeper.agent.series import AVERAGE_WEIGHT, UNIFORM_SHARE, YEAR, WeightBounds, weights_for

LIMITS = WeightBounds(10**6, 10**9)
MONTH = 30 * 86_400
VALUE = 50_000 * 10**8
VOLATILITY = 0.8


def shares(weights: tuple[int, ...]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def stated(probability: float, outcomes: int = 2) -> float:
    return (1 - UNIFORM_SHARE) * probability + UNIFORM_SHARE / outcomes


def ends(seed: int) -> list[float]:
    """Return values at the end of a month, relative to the first."""
    random, deviation = Random(seed), VOLATILITY * sqrt(MONTH / YEAR)
    return [exp(random.gauss(0, deviation) - deviation**2 / 2) for _ in range(20_000)]


@given(
    st.sampled_from(MarketKind),
    st.integers(1, 10**20),
    st.integers(0, 10 * MONTH),
    st.floats(0.01, 5),
    st.lists(st.integers(1, 10**20), min_size=1, max_size=7, unique=True).map(sorted),
    st.integers(1, AVERAGE_WEIGHT),
    st.integers(AVERAGE_WEIGHT, 2**32 - 1),
    st.one_of(st.none(), st.floats(0, 1)),
)
def test_weights_add_up_exactly_within_their_bounds(
    kind: MarketKind,
    value: int,
    seconds: int,
    volatility: float,
    bounds: list[int],
    minimum: int,
    maximum: int,
    early: float | None,
) -> None:
    outcomes = len(bounds) + 1 if kind is MarketKind.RANGE else 2
    weights = weights_for(
        kind,
        outcomes,
        WeightBounds(minimum, maximum),
        value=value,
        seconds=seconds,
        volatility=volatility,
        target=bounds[0],
        bounds=bounds if kind is MarketKind.RANGE else (),
        early_seconds=None if early is None else int(early * seconds),
    )
    assert len(weights) == outcomes
    assert sum(weights) == outcomes * AVERAGE_WEIGHT
    assert all(minimum <= weight <= maximum for weight in weights)


def test_a_direction_is_a_fair_coin_and_so_is_what_nothing_is_known_about() -> None:
    alike = (AVERAGE_WEIGHT, AVERAGE_WEIGHT)
    assert weights_for(MarketKind.DIRECTION, 2, LIMITS, value=VALUE, seconds=MONTH) == alike
    assert weights_for(MarketKind.THRESHOLD, 2, LIMITS, target=1) == alike
    assert weights_for(MarketKind.RANGE, 3, LIMITS, bounds=(1, 2)) == (AVERAGE_WEIGHT,) * 3


@pytest.mark.parametrize("target", [0.7, 0.95, 1.0, 1.05, 1.4])
def test_a_threshold_at_its_end_is_as_likely_as_a_simulation_says(target: float) -> None:
    weights = weights_for(MarketKind.THRESHOLD, 2, LIMITS, value=VALUE, seconds=MONTH, target=int(VALUE * target))
    assert shares(weights)[0] == pytest.approx(stated(sum(end >= target for end in ends(5)) / 20_000), abs=0.012)


@pytest.mark.parametrize(("target", "begins"), [(1.2, 0), (1.2, 10 * 86_400), (0.9, 10 * 86_400), (1.5, 29 * 86_400)])
def test_an_early_threshold_is_as_likely_as_a_simulation_says(target: float, begins: int) -> None:
    steps, rounds = 600, 4_000
    deviation = VOLATILITY * sqrt(MONTH / steps / YEAR)
    moves = np.random.default_rng(6).normal(-(deviation**2) / 2, deviation, (rounds, steps))
    touched = (np.exp(moves.cumsum(axis=1)[:, begins * steps // MONTH :]) >= target).any(axis=1)
    weights = weights_for(
        MarketKind.THRESHOLD, 2, LIMITS, value=VALUE, seconds=MONTH, target=int(VALUE * target), early_seconds=begins
    )
    assert shares(weights)[0] == pytest.approx(stated(float(touched.mean())), abs=0.035)


def test_a_range_is_as_likely_as_a_simulation_says() -> None:
    found, bounds = ends(7), (0.8, 0.95, 1.05, 1.3)
    weights = weights_for(
        MarketKind.RANGE, 5, LIMITS, value=VALUE, seconds=MONTH, bounds=[int(VALUE * bound) for bound in bounds]
    )
    for outcome, share in enumerate(shares(weights)):
        part = sum(sum(end >= bound for bound in bounds) == outcome for end in found) / len(found)
        assert share == pytest.approx(stated(part, 5), abs=0.012)


def test_touching_is_likelier_than_ending_there_and_certain_where_it_is_already() -> None:
    def yes(target: float, early: int | None) -> float:
        level = int(VALUE * target)
        weights = weights_for(
            MarketKind.THRESHOLD, 2, LIMITS, value=VALUE, seconds=MONTH, target=level, early_seconds=early
        )
        return shares(weights)[0]

    for target in (1.1, 1.3, 2.0):
        assert yes(target, None) < yes(target, MONTH // 2) < yes(target, 0)
    assert yes(0.9, 0) == pytest.approx(stated(1.0))


def test_what_is_all_but_impossible_still_weighs_the_minimum() -> None:
    limits = WeightBounds(2 * 10**6, 15 * 10**6)
    weights = weights_for(MarketKind.THRESHOLD, 2, limits, value=VALUE, seconds=3_600, target=100 * VALUE)
    assert weights == (20 * 10**6 - 15 * 10**6, 15 * 10**6)


@pytest.mark.parametrize("limits", [WeightBounds(11 * 10**6, 10**9), WeightBounds(1, 9 * 10**6)])
def test_bounds_that_no_average_fits_are_refused(limits: WeightBounds) -> None:
    with pytest.raises(ValueError, match="an average of"):
        weights_for(MarketKind.DIRECTION, 2, limits)

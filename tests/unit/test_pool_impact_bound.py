"""What the cap of a pool feed's markets rests on: the most that any attack can add to a bet, as the solution of a
control problem on a grid.

A fair bet loses its fee, 2% of the stake, or 1.75% at the least. What the best attack adds has to be less, for every
bet with a chance of 1% or more, with or without arbitrage on the pool.

Units: the window is 1, the price wanders by 1 over it, so a reading by 1 / sqrt(3). The bet gains 1 if it wins. A state
is the reading if the price stayed as it is (`m`, measured from the bet's edge), how much of the window is left (`u`),
and, with arbitrage, where in its fee band the price is. Going back in time, the attacker takes the better of waiting
and pushing; a push by x moves m by x * u.

`k` is the size of the market: at k = 1 a gain of 1 costs as much as a round trip of pushes by one standard deviation of
the reading. So a pot of `c * phi * D1 * sd` dollars has k = c / 200.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from core.agent.book import MIN_FEE_BPS
from core.feeds.cost import FACTOR, FULL_FEE_BPS, FULL_REACH, LOW_FEE_FACTOR, REACHES, cap_factor
from core.money import BPS

Floats = npt.NDArray[np.float64]
SD = 1 / math.sqrt(3)


@dataclass(frozen=True)
class Worth:
    """The probability of winning by state at the start of the window: without attacks and with the best attack."""

    chance: Floats
    attacked: Floats

    def added(self, least_chance: float) -> float:
        """Return the most an attack adds, as a share of a fair bet's cost, over outcomes that are not less likely."""
        likely = self.chance >= least_chance
        return float(np.max((self.attacked[likely] - self.chance[likely]) / self.chance[likely]))


def unarbitraged(
    k: float, width: float | None = None, ways: float = 2.0, steps: int = 400, cells: int = 3_200
) -> Worth:
    """Solve without arbitrage: a push costs the fee `ways` times, at any price. `width`: of the winning bucket, in
    standard deviations of the reading; None: everything above the edge wins."""
    cost_of_one = ways / 2 / (k * SD)
    m = np.linspace(-4, 4, cells + 1)
    dm = float(m[1] - m[0])
    wins = (m >= 0) & (m < (math.inf if width is None else width * SD))
    chance, worth, places = wins.astype(float), wins.astype(float), np.arange(cells + 1)
    for j in range(1, steps + 1):
        u, before = j / steps, (j - 1) / steps
        wander = math.sqrt((u**3 - before**3) / 3)
        chance, worth = _spread(chance, wander / dm), _spread(worth, wander / dm)
        cost = cost_of_one / u * dm
        worth = np.maximum.accumulate((worth - cost * places)[::-1])[::-1] + cost * places
        if width is not None:
            worth = np.maximum.accumulate(worth + cost * places) - cost * places
    return Worth(chance, worth)


def arbitraged(k: float, reach: float, width: float | None = None, steps: int = 400, cells: int = 2_500) -> list[Worth]:
    """Solve with an arbitrageur who brings the price back into its fee band, which holds `reach` of the price's moves
    in the window. Inside, a push costs the fee less what it is worth elsewhere: nothing at the edge that the price is
    pushed from, twice the fee at the other. Return a result for a price that may be anywhere in the band, and one for
    each edge."""
    places_in_band = max(2, round(2 * reach * math.sqrt(steps))) + 1
    z = np.linspace(-reach, reach, places_in_band)
    step = float(z[1] - z[0])
    steps = round(1 / step**2)
    m = np.linspace(-2.5, 2.5, cells + 1)
    wins = ((m >= 0) & (m < (math.inf if width is None else width * SD))).astype(float)
    chance, worth = np.tile(wins, (len(z), 1)), np.tile(wins, (len(z), 1))
    middle = (z[:-1] + z[1:]) / 2
    up, down = (step * (reach + side * middle) / (2 * reach * k * SD) for side in (1, -1))

    def seen_from(values: Floats, away: float) -> Floats:
        return np.interp(m + away, m, values)

    def waited(values: Floats, u: float) -> Floats:
        # The price elsewhere rises or falls by one step. At the edge of the band the pool follows it.
        rises = np.vstack([seen_from(values[0], step * u)[None], values[:-1]])
        falls = np.vstack([values[1:], seen_from(values[-1], -step * u)[None]])
        return (rises + falls) / 2

    for j in range(1, steps + 1):
        u = (j - 0.5) / steps
        chance, worth = waited(chance, u), waited(worth, u)
        for i in range(len(z) - 2, -1, -1):
            worth[i] = np.maximum(worth[i], seen_from(worth[i + 1], step * j / steps) - up[i])
        if width is not None:
            for i in range(1, len(z)):
                worth[i] = np.maximum(worth[i], seen_from(worth[i - 1], -step * j / steps) - down[i - 1])
    return [Worth(chance.mean(0), worth.mean(0)), Worth(chance[0], worth[0]), Worth(chance[-1], worth[-1])]


def _spread(values: Floats, deviation: float) -> Floats:
    half = max(3, math.ceil(5 * deviation))
    edges = (np.arange(-half, half + 2) - 0.5) / deviation / math.sqrt(2)
    below = np.array([math.erf(edge) for edge in edges])
    weights = np.diff(below)
    weights /= weights.sum()
    around = np.concatenate([np.full(half, values[0]), values, np.full(half, values[-1])])
    return np.convolve(around, weights, "valid")


MIN_CHANCE = 0.01
FEES = [(MIN_FEE_BPS, LOW_FEE_FACTOR), (FULL_FEE_BPS, FACTOR)]
HALF_ROUND_TRIP = 1.0  # he sells elsewhere what he bought: the fee is paid once


@pytest.mark.parametrize("width", [None, 1.0, 2.0], ids=["threshold", "bucket of one sd", "bucket of two"])
@pytest.mark.parametrize(("fee_bps", "factor"), FEES)
def test_no_attack_adds_the_fee_of_its_bet_without_arbitrage(fee_bps: int, factor: float, width: float | None) -> None:
    assert unarbitraged(factor / 200, width, HALF_ROUND_TRIP, 200, 2_400).added(MIN_CHANCE) < fee_bps / BPS


@pytest.mark.parametrize("width", [None, 1.0], ids=["threshold", "bucket of one sd"])
@pytest.mark.parametrize("reach", [FULL_REACH / 2, *(reach for reach, _ in REACHES)])
@pytest.mark.parametrize("fee_bps", [MIN_FEE_BPS, FULL_FEE_BPS])
def test_nor_where_every_block_is_arbitraged(fee_bps: int, reach: float, width: float | None) -> None:
    for worth in arbitraged(cap_factor(reach, fee_bps) / 200, reach, width, steps=200, cells=1_200):
        assert worth.added(MIN_CHANCE) < fee_bps / BPS


@pytest.mark.parametrize("width", [0.5, 0.25])
@pytest.mark.parametrize(("fee_bps", "factor"), FEES)
def test_nor_on_a_narrow_bucket_where_the_cap_counts_its_width_in_place_of_the_sd(
    fee_bps: int, factor: float, width: float
) -> None:
    fee = fee_bps / BPS
    assert unarbitraged(factor * width / 200, width, HALF_ROUND_TRIP, 200, 4_800).added(MIN_CHANCE) < fee
    for reach in (FULL_REACH / 2, *(reach for reach, _ in REACHES)):
        for worth in arbitraged(cap_factor(reach, fee_bps) * width / 200, reach, width, steps=200, cells=1_200):
            assert worth.added(MIN_CHANCE) < fee


def added_to_an_even_bet(worth: Worth) -> float:
    """Return what an attack adds to an even bet on outcomes that rise with the reading."""
    place = int(np.searchsorted(worth.chance, 0.5))
    return float((worth.attacked[place] - worth.chance[place]) / worth.chance[place])


def test_pushes_decided_beforehand_stop_paying_at_500_and_those_that_look_on_do_not() -> None:
    adaptive = unarbitraged(500 / 200, steps=200, cells=2_400)
    assert 0.2 < added_to_an_even_bet(adaptive) < 0.28  # of the stake, even if he has to buy and sell in the pool
    assert added_to_an_even_bet(unarbitraged(500 / 200, ways=HALF_ROUND_TRIP, steps=200, cells=2_400)) > 0.5
    decided_beforehand = unarbitraged(500 / 200, steps=1, cells=2_400)
    assert decided_beforehand.added(MIN_CHANCE) < 0.01


def test_a_narrow_bucket_or_a_short_window_needs_a_smaller_cap() -> None:
    assert unarbitraged(FACTOR / 200, 0.03, HALF_ROUND_TRIP, 200, 9_600).added(MIN_CHANCE) > FULL_FEE_BPS / BPS
    assert max(worth.added(MIN_CHANCE) for worth in arbitraged(FACTOR / 200, 0.6, steps=200)) > FULL_FEE_BPS / BPS

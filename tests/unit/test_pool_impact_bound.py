"""What the cap of a pool feed's markets rests on: the most that any attack can add to a bet, solved backwards in time.

A fair bet loses its fee, 2% of the stake, or 1.75% at the least. What the best attack adds has to be less, for every
bet with a chance of 1% or more, with or without arbitrage on the pool.
"""

from __future__ import annotations

import numpy as np
import pytest

from core.agent.book import MIN_FEE_BPS
from core.feeds.cost import FACTOR, FULL_FEE_BPS, FULL_REACH, LOW_FEE_FACTOR, REACHES, cap_factor
from core.money import BPS
from tests.support.pool_watching import Worth, arbitraged, unarbitraged

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
    """So a reading that wanders further than the narrowest bucket needs no wider ones, but a smaller cap."""
    fee = fee_bps / BPS
    assert unarbitraged(factor * width / 200, width, HALF_ROUND_TRIP, 200, 4_800).added(MIN_CHANCE) < fee
    for reach in (FULL_REACH / 2, *(reach for reach, _ in REACHES)):
        for worth in arbitraged(cap_factor(reach, fee_bps) * width / 200, reach, width, steps=200, cells=1_200):
            assert worth.added(MIN_CHANCE) < fee


def added_to_an_even_bet(worth: Worth) -> float:
    """On outcomes that rise with the reading."""
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

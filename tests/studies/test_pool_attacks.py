"""An attacker with the pool's own arithmetic against markets at their cap: 10,000 attacks while nobody arbitrages, as
many where every block is arbitraged, on all kinds of market; none earns.

An attack is judged by its mean over many courses of the price, which is known only so well: the best ones are tried
again on many more, from another seed. `VPM_TEST_SEED` draws others; VPM_TEST_LONG=1 tries each on forty times as many
courses.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from core.agent.book import DecidingTerms, Reading, decide
from core.contracts.statuses import MarketKind
from core.feeds.cost import PricedPool, moved
from core.feeds.uniswap import Pool, sqrt_price_at
from tests.support.pool_attacker import KINDS, STEPS, Attacks, Curves, Outcome, Step, pool_of, tried, watched

LONG = bool(os.environ.get("VPM_TEST_LONG"))
SEED = os.environ.get("VPM_TEST_SEED", "attacker")
OF_A_KIND, BATCH = 5_000, 250
COURSES = 1_600 if LONG else 40
AGAIN, COURSES_AGAIN = 8, 100_000 if LONG else 20_000

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(7_200 if LONG else 300)]


def dice_of(*words: object) -> np.random.Generator:
    return np.random.default_rng(list(" ".join(map(str, (SEED, *words))).encode()))


def batches(kind: str, count: int, factor: float | None = None) -> Iterator[tuple[Attacks, Outcome]]:
    dice = dice_of(kind, factor)
    for _ in range(count // BATCH):
        attacks = Attacks.drawn(dice, kind, BATCH, factor)
        yield attacks, tried(attacks, dice, COURSES)


def most_promising(played: list[tuple[Attacks, Outcome]]) -> tuple[Attacks, Outcome]:
    """Those whose bets came out best for what chance alone would explain, on courses they have not seen."""
    score = [(outcome.earned / np.maximum(outcome.error, outcome.fee / 20)) for _, outcome in played]
    chosen = [(values[at], n, at) for n, values in enumerate(score) for at in np.argsort(values)[-AGAIN:]]
    best = sorted(chosen, reverse=True)[:AGAIN]
    parts = [played[n][0].some(np.array([at])) for _, n, at in best]
    attacks = parts[0].joined(parts[1:])
    return attacks, tried(attacks, dice_of("again", attacks.kind), COURSES_AGAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_no_attack_earns_from_a_market_at_its_cap(kind: str) -> None:
    played = list(batches(kind, OF_A_KIND))
    assert sum(len(attacks) for attacks, _ in played) * len(KINDS) == 20_000  # half of them with arbitrage
    _, again = most_promising(played)
    clear = again.earned - 3 * again.error > 0
    assert not clear.any(), f"adds {again.added[clear]}, for fees of {again.fee[clear]}"
    every = np.concatenate([outcome.earned for _, outcome in played])
    assert every.mean() < 0  # all together lose, too


def test_at_ten_times_the_cap_the_same_attacker_earns() -> None:
    _, again = most_promising(list(batches("threshold", 2_000, factor=500.0)))
    assert (again.earned - 5 * again.error > 0).sum() >= AGAIN // 2
    assert (again.added / again.stake).max() > 0.1


def test_the_model_is_the_exact_pool_swap_by_swap() -> None:
    """Courses of single attacks, played again on the mirror of the pool: each move of the price is a swap."""
    dice, pushes = dice_of("exact"), 0
    for _ in range(200):
        attacks = Attacks.drawn(dice, "threshold", 1, factor=500.0)
        course = watched(attacks, dice)
        fee_pips = round(float(attacks.fee[0]) * 10**6)
        pool = pool_of(fee_pips, concentrated=bool(attacks.curve[0] % 2))
        pool.grow(500)
        seconds, now, spent = 60, 1, 0.0
        unit = 0.0
        for step in course.steps:
            now += seconds
            pool.now = now
            natural = PricedPool("", pool, 1e-18, 1e-18)
            unit = unit or natural.phi * natural.depth()
            if step.before != step.after:
                spent += _pushed(pool, step, bool(attacks.arbitraged[0])) / unit
                pushes += 1
            _bring(pool, step.elsewhere + step.after)
        end = now + seconds
        last = end - seconds * course.steps_after_window
        window = seconds * STEPS
        cumulatives = [pool.observe(at, end).tick for at in (last - window, last)]
        reading = (cumulatives[1] - cumulatives[0]) / window * np.log(1.0001)
        assert reading == pytest.approx(course.reading, abs=1.5e-4)  # the pool's ticks are whole
        assert spent == pytest.approx(course.spent, rel=0.08, abs=1e-3)
        if abs(course.reading - course.edge) > 2e-4:
            assert _decided(reading, course.edge) == course.won
    assert pushes > 15


def _bring(pool: Pool, price: float) -> None:
    pool.swap_to(moved(sqrt_price_at(0), price))


def _pushed(pool: Pool, step: Step, arbitraged: bool) -> float:
    """What one push costs on the exact pool, in its own dollars."""
    elsewhere, before, after = step.elsewhere, step.before, step.after
    _bring(pool, elsewhere + before)
    fair = PricedPool("", pool.copy(), 1e-18 * np.exp(elsewhere), 1e-18)
    if arbitraged:
        return fair.lost(*pool.copy().swap_to(moved(sqrt_price_at(0), elsewhere + after))[:2])
    rest = fair.pool.copy()
    rest.swap_to(moved(sqrt_price_at(0), elsewhere))
    still = PricedPool("", rest, fair.usd0, fair.usd1)
    here = still.cheapest_unopposed(before) if before else 0.0
    return still.cheapest_unopposed(after) - (here if before * after > 0 else 0.0)


def _decided(reading: float, edge: float) -> bool:
    """What the settlement makes of the reading: a market cap of 100 million at price 1, in 8 decimals."""
    cap = 100_000_000 * 10**8
    target, answer = round(cap * np.exp(edge)), round(cap * np.exp(reading))
    terms = DecidingTerms(MarketKind.THRESHOLD, target, (), False, False, 600, 0, 1_000, 0, 1_000, 9_000)
    return decide(terms, Reading(answer, 1_000)).winner == 0


def test_curves_rise_and_cost_more_than_nothing() -> None:
    curves = Curves.measured()
    middle = curves.held.shape[1] // 2
    assert (np.diff(curves.held[:, middle:], axis=1) > 0).all()
    assert (curves.held[:, middle] == 0).all()
    assert (np.diff(curves.through, axis=1) >= -1e-9).all()

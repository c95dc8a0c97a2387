"""An attacker with the pool's own arithmetic against markets at their cap: 10,000 attacks without arbitrage, and as
many where every block is arbitraged, on all kinds of market. None earns. An attack is judged by its mean over many
courses of the price, which is uncertain, so the best ones are tried again on many more courses from another seed.
`VPM_TEST_SEED` sets the seed; VPM_TEST_LONG=1 uses forty times as many courses."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.pool_attacker import KINDS, Attacks, Outcome, tried

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
    """Try again, on new courses, the attacks that earned most compared with what chance explains."""
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

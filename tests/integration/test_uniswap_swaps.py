"""The model of a Uniswap v3 pool against the published contracts: random positions, withdrawals and swaps in both
directions. Each swap moves the amounts that the model predicts.

`VPM_TEST_SEED` plays another story; VPM_TEST_LONG=1 plays forty times as long.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from core.feeds.uniswap import MAX_TICK, Q96, sqrt_price_at, tick_at
from scripts._deploy import build
from scripts._stack.uniswap import SPACINGS
from tests.conftest import StartAnvil
from tests.support.uniswap_world import World, any_price, any_ticks

SEED = os.environ.get("VPM_TEST_SEED", "uniswap")
LONG = os.environ.get("VPM_TEST_LONG") == "1"
STEPS = 4_000 if LONG else 120

pytestmark = pytest.mark.timeout(3_600 if LONG else 600)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    asyncio.run(build.compile_all())


@pytest.mark.parametrize("fee_pips", SPACINGS)
@pytest.mark.thorough
def test_swaps_move_what_the_model_predicts(anvil: StartAnvil, fee_pips: int) -> None:
    dice = random.Random(f"{SEED} {fee_pips}")
    world = World.make(anvil().url, fee_pips, int(sqrt_price_at(dice.randint(-90_000, 90_000)) * Q96) + 12_345)
    edge = MAX_TICK // SPACINGS[fee_pips] * SPACINGS[fee_pips]
    world.provide(-edge, edge, 10**24, 10**24)
    crossed, ticks = 0, []
    for _ in range(STEPS):
        world.wait(dice.choice((1, 2, 12, 60, 3_600)))
        chance = dice.random()
        if chance < 0.15:
            lower, upper = any_ticks(dice, world)
            world.provide(lower, upper, int(10 ** dice.uniform(15, 24)), int(10 ** dice.uniform(15, 24)))
        elif chance < 0.2 and len(world.positions) > 1:
            world.withdraw(dice.choice(sorted(world.positions)[1:]), dice.choice((1, dice.random())))
        else:
            before = world.pool()
            moved = world.swap(any_price(dice, world))
            after = world.pool()
            # Each stretch on the way rounds by a unit.
            assert before.swap(before.sqrt_price, after.sqrt_price) == pytest.approx(moved, rel=1e-9, abs=100)
            crossed += after.liquidity != before.liquidity
        here = world.pool()
        assert here.liquidity == sum(net for tick, net in here.net.items() if tick <= here.tick)
        ticks.append(here.tick)
    assert crossed > STEPS // 10, "hardly any liquidity came into range or went out of it"
    assert max(ticks) - min(ticks) > 10_000


def test_a_price_is_between_its_tick_and_the_next() -> None:
    dice = random.Random(SEED)
    for _ in range(20_000):
        tick = dice.randint(-MAX_TICK, MAX_TICK - 1)
        assert tick_at(sqrt_price_at(tick) * (1 + 1e-9)) == tick
        assert tick_at(sqrt_price_at(tick + 1) * (1 - 1e-9)) == tick

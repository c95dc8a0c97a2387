"""The mirror of a Uniswap v3 pool against the published contracts, step by step: random positions, withdrawals, swaps
in both directions and of both forms, waits. After each step price, tick and liquidity are compared.

`VPM_TEST_SEED` plays another story; VPM_TEST_LONG=1 plays forty times as long.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from core.feeds.uniswap import MAX_TICK, MIN_SQRT_PRICE, sqrt_price_at, tick_at
from scripts._stack import contracts
from scripts._stack.uniswap import SPACINGS
from tests.conftest import StartAnvil
from tests.support.uniswap_world import World, any_limit, any_ticks

SEED = os.environ.get("VPM_TEST_SEED", "uniswap")
LONG = os.environ.get("VPM_TEST_LONG") == "1"
STEPS = 4_000 if LONG else 120

pytestmark = pytest.mark.timeout(3_600 if LONG else 600)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    asyncio.run(contracts.compile_all())


@pytest.mark.parametrize("fee_pips", SPACINGS)
@pytest.mark.thorough
def test_every_number_of_the_pool_is_the_mirrors(anvil: StartAnvil, fee_pips: int) -> None:
    dice = random.Random(f"{SEED} {fee_pips}")
    world = World.make(anvil().url, fee_pips, sqrt_price_at(dice.randint(-90_000, 90_000)) + 12_345)
    edge = MAX_TICK // world.mirror.spacing * world.mirror.spacing
    world.provide(-edge, edge, 10**24, 10**24)
    crossed, lowest, highest = 0, world.mirror.tick, world.mirror.tick
    for _ in range(STEPS):
        world.wait(dice.choice((1, 1, 2, 2, 12, 60, 3_600)))
        before = world.mirror.liquidity
        _step(dice, world)
        crossed += world.mirror.liquidity != before
        lowest, highest = min(lowest, world.mirror.tick), max(highest, world.mirror.tick)
    assert world.compared > STEPS * 3 // 4  # else the story was of refused steps
    assert crossed > STEPS // 10, "hardly any liquidity came into range or went out of it"
    assert highest - lowest > 10_000


def _step(dice: random.Random, world: World) -> None:
    chance = dice.random()
    if chance < 0.12:
        lower, upper = any_ticks(dice, world)
        world.provide(lower, upper, int(10 ** dice.uniform(15, 24)), int(10 ** dice.uniform(15, 24)))
    elif chance < 0.2 and len(world.positions) > 1:
        number = dice.choice(sorted(world.positions)[1:])
        world.withdraw(number, dice.choice((1, dice.random())))
    else:
        down = dice.random() < (0.8 if world.mirror.tick > 150_000 else 0.2 if world.mirror.tick < -150_000 else 0.5)
        size = dice.uniform(0, 18) if dice.random() < 0.2 else dice.uniform(21, 25)
        amount = int(10**size) * dice.choice((1, 1, -1))
        world.swap(down, amount, any_limit(dice, world, down))


def test_a_price_is_the_greatest_tick_below_it() -> None:
    dice = random.Random(SEED)
    for _ in range(20_000):
        tick = dice.randint(-MAX_TICK, MAX_TICK - 1)
        price = sqrt_price_at(tick)
        assert tick_at(price) == tick
        assert tick == -MAX_TICK or tick_at(price - 1) == tick - 1
        between = dice.randint(price, sqrt_price_at(tick + 1) - 1)
        assert tick_at(between) == tick
    with pytest.raises(ValueError, match="outside the price range"):
        tick_at(MIN_SQRT_PRICE - 1)

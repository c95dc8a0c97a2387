"""A pool's past made again from its logs is the one its own observations tell, from wherever the logs begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from core.feeds.uniswap import PoolError, sqrt_price_at
from scripts._verify.pool_logs import POOL_EVENTS, Initialized, LiquidityMoved, PoolChange, Swapped, pool_from_logs
from scripts._verify.pool_readings import Observation, PoolState, PoolWindow
from tests.support.pool_history import RememberingPool

BEGIN = 1_800_000_000
WINDOW = 600


@dataclass
class Played:
    """A pool's mirror with the logs that the contract would have written, each with its block's time."""

    pool: RememberingPool
    now: int = BEGIN
    logs: list[tuple[int, PoolChange]] = field(default_factory=list)
    positions: list[tuple[int, int, int]] = field(default_factory=list)
    middle: int = 0

    @classmethod
    def random(cls, seed: int, steps: int) -> Played:
        rng = Random(seed)
        tick = rng.randrange(-20_000, 20_000)
        made = cls(RememberingPool.begun(sqrt_price_at(tick), 3_000, 60, BEGIN))
        made.middle = tick
        made.pool.grow(65_535)
        made.logs.append((BEGIN, Initialized(made.pool.tick)))
        made.mint(made.pool.tick // 60 * 60 - 60_000, made.pool.tick // 60 * 60 + 60_000, 10**20)
        for _ in range(steps):
            made.now += rng.choice((0, 0, 1, 2, 2, 30, 300, rng.randrange(2_000)))
            made.pool.now = made.now
            made.step(rng)
        return made

    def step(self, rng: Random) -> None:
        near = self.pool.tick // 60 * 60
        what = rng.random()
        if what < 0.15:
            lower = near + 60 * rng.randint(-20, 3)
            self.positions.append((lower, lower + 60 * rng.randint(1, 40), rng.randint(1, 10**19)))
            self.mint(*self.positions[-1])
        elif what < 0.25 and self.positions:
            self.burn(*self.positions.pop(rng.randrange(len(self.positions))))
        elif what < 0.3 and self.positions:
            lower, upper, _ = rng.choice(self.positions)
            self.burn(lower, upper, 0)  # collects fees, and changes nothing
        else:
            self.swap(rng.random() < 0.5, rng.choice((1, 10**15, 10**18, 10**20)))

    def mint(self, lower: int, upper: int, liquidity: int) -> None:
        self.pool.mint(lower, upper, liquidity)
        self.logs.append((self.now, LiquidityMoved(lower, upper, liquidity)))

    def burn(self, lower: int, upper: int, liquidity: int) -> None:
        if liquidity:
            self.pool.burn(lower, upper, liquidity)
        self.logs.append((self.now, LiquidityMoved(lower, upper, -liquidity)))

    def swap(self, zero_for_one: bool, amount: int) -> None:
        limit = sqrt_price_at(self.middle + (-50_000 if zero_for_one else 50_000))
        try:
            self.pool.copy().swap(zero_for_one, amount, limit)
        except PoolError:
            return  # it stands at the limit
        self.pool.swap(zero_for_one, amount, limit)
        self.logs.append((self.now, Swapped(self.pool.liquidity, self.pool.tick)))

    def remembered(self) -> PoolState:
        """As its ring has it."""
        ring = [each for each in self.pool.history.ring if each is not None]
        kept = [Observation(each.at, each.tick, each.seconds_per_liquidity) for each in ring]
        return PoolState(kept, self.pool.tick, self.pool.liquidity)


def told(window: PoolWindow) -> tuple[int, int, int, int]:
    """What a reading follows from."""
    return window.ticks, window.seconds_per_liquidity, window.liquidity(WINDOW), window.quiet


@pytest.mark.parametrize("seed", range(40))
def test_windows_from_logs_are_those_of_the_ring(seed: int) -> None:
    rng, played = Random(seed), Played.random(seed, 120)
    ring = played.remembered()
    checked = 0
    for _ in range(60):
        end = rng.randint(BEGIN + WINDOW, played.now + 100)
        after = [log for log in played.logs if log[0] <= end]
        begin = rng.randrange(len(after))
        while begin and after[begin - 1][0] == after[begin][0]:
            begin -= 1  # logs are read in whole blocks
        again = pool_from_logs(after[begin:])
        if again is None or not again.tells(end, WINDOW):
            continue  # then more logs are asked for
        checked += 1
        assert told(again.window(end, WINDOW)) == told(ring.window(end, WINDOW))
    assert checked > 5


def test_with_all_its_logs_everything_since_the_beginning_is_told() -> None:
    played = Played.random(7, 200)
    again = pool_from_logs(played.logs)
    assert again == played.remembered()


def test_nothing_is_told_by_logs_that_may_not_have_written() -> None:
    """Of the first log's own time nobody knows whether an observation was written before it."""
    assert pool_from_logs([]) is None
    assert pool_from_logs([(BEGIN, Swapped(5, 100))]) is None
    assert pool_from_logs([(BEGIN, Swapped(5, 100)), (BEGIN, Swapped(5, 101))]) is None
    assert pool_from_logs([(BEGIN, Swapped(5, 100)), (BEGIN + 9, Swapped(6, 100))]) is None  # the tick stood still
    assert pool_from_logs([(BEGIN, LiquidityMoved(0, 200, 5)), (BEGIN + 9, LiquidityMoved(0, 200, 5))]) is None
    made = pool_from_logs([(BEGIN, Swapped(5, 100)), (BEGIN + 9, Swapped(6, 101))])
    assert made == PoolState([Observation(BEGIN + 9, 0, 0)], 101, 6)


@pytest.mark.parametrize(
    ("signature", "topics", "kinds", "values", "event"),
    [
        ("Initialize(uint160,int24)", [], ["uint160", "int24"], [2**96, -7], Initialized(-7)),
        (
            "Swap(address,address,int256,int256,uint160,uint128,int24)",
            [5, 6],
            ["int256", "int256", "uint160", "uint128", "int24"],
            [-1, 2, 2**96, 9, -887_272],
            Swapped(9, -887_272),
        ),
        (
            "Swap(address,address,int256,int256,uint160,uint128,int24,uint128,uint128)",
            [5, 6],
            ["int256", "int256", "uint160", "uint128", "int24", "uint128", "uint128"],
            [-1, 2, 2**96, 9, 887_272, 3, 4],
            Swapped(9, 887_272),
        ),
        (
            "Mint(address,address,int24,int24,uint128,uint256,uint256)",
            [5, 2**256 - 120, 60],
            ["uint256", "uint128", "uint256", "uint256"],
            [1, 77, 8, 9],
            LiquidityMoved(-120, 60, 77),
        ),
        (
            "Burn(address,int24,int24,uint128,uint256,uint256)",
            [5, 2**256 - 120, 60],
            ["uint128", "uint256", "uint256"],
            [77, 8, 9],
            LiquidityMoved(-120, 60, -77),
        ),
    ],
)
def test_logs_of_both_families_are_read(
    signature: str, topics: list[int], kinds: list[str], values: list[int], event: PoolChange
) -> None:
    head = keccak(text=signature)
    joined = head + b"".join(each.to_bytes(32) for each in topics)
    assert POOL_EVENTS[head].read(joined, encode(kinds, values)) == event


@pytest.mark.parametrize(
    ("lower", "upper", "in_range"), [(100, 160, True), (40, 100, False), (101, 160, False), (40, 101, True)]
)
def test_liquidity_counts_from_its_lower_tick_to_under_its_upper(lower: int, upper: int, in_range: bool) -> None:
    made = pool_from_logs([(BEGIN, Initialized(100)), (BEGIN + 9, LiquidityMoved(lower, upper, 5))])
    assert made is not None
    assert (made.liquidity, len(made.observations)) == ((5, 2) if in_range else (0, 1))

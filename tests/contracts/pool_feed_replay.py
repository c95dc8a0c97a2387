"""Histories that forge plays on real pools, and what a feed recorded of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eth_abi.abi import decode

from core.contracts.statuses import Quality
from scripts._verify.pools import PoolFeedTerms, SourceTerms
from tests.contracts.forge_runs import forge_test
from tests.support.pool_readings import Observation, PoolState

CASES = "tests/contracts/forge/feeds/Cases.t.sol"

MEASURE = "(int56,int56,uint128,uint32)"
CASE = (
    "((string,address,address,uint256,address[],uint128[],uint32,uint32,uint32),uint256,(address,bool,uint128)[],"
    f"(uint256,uint256,int256,uint256,uint256)[],(uint256,uint8,int256,{MEASURE}[])[],"
    "(uint256,uint256,uint256,uint256,bool,uint80,int256,uint64)[])"
)
LINE = re.compile(r"CASE\|(0x[0-9a-f]+)")


@dataclass(frozen=True)
class Step:
    """A pool's state after a call."""

    which: int
    time: int
    tick: int
    liquidity: int
    sqrt_price: int  # times 2**96


@dataclass(frozen=True)
class Recorded:
    """A feed's record for a grid time; a measure is the cumulatives, the liquidity and the silence."""

    time: int
    quality: Quality
    answer: int
    measures: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Asked:
    """A feed's answer for a moment, after so many readings were recorded."""

    time: int
    max_age: int
    recorded: int
    oldest_available: int
    waits: bool
    round: int
    answer: int
    grid_time: int


@dataclass(frozen=True)
class Case:
    """A history of one or two pools, and what a feed recorded of it."""

    terms: PoolFeedTerms
    steps: tuple[Step, ...]
    readings: tuple[Recorded, ...]
    asked: tuple[Asked, ...]

    def of_pool(self, which: int) -> list[Step]:
        return [step for step in self.steps if step.which == which]

    def pool(self, which: int) -> PoolState:
        """Return all that the pool ever observed, computed from its states. The first call of a block that changes them
        writes an observation."""
        first, *rest = self.of_pool(which)
        observations = [Observation(first.time, 0, 0)]
        at = first
        for step in rest:
            changed = (step.tick, step.liquidity) != (at.tick, at.liquidity)
            if changed and step.time > observations[-1].time:
                observations.append(observations[-1].next(step.time, at.tick, at.liquidity))
            at = step
        return PoolState(observations, at.tick, at.liquidity)


def play(count: int, seed: int) -> list[Case]:
    """Play random histories on real pools."""
    run = forge_test(CASES, VPM_POOL_CASES=str(count), VPM_POOL_SEED=str(seed))
    assert run.returncode == 0, run.stdout[-4000:]
    cases = [_case(line) for line in LINE.findall(run.stdout)]
    assert len(cases) == count
    return cases


def _case(line: str) -> Case:
    ((config, quote_decimals, sources, steps, readings, asked),) = decode([CASE], bytes.fromhex(line[2:]))
    _, _, _, supply, _, _, window, step, _ = config
    return Case(
        PoolFeedTerms(
            tuple(SourceTerms(base_is_token0, reference) for _, base_is_token0, reference in sources),
            supply,
            quote_decimals,
            window,
            step,
        ),
        tuple(Step(*each) for each in steps),
        tuple(
            Recorded(time, Quality(quality), answer, tuple(measures)) for time, quality, answer, measures in readings
        ),
        tuple(Asked(*each) for each in asked),
    )

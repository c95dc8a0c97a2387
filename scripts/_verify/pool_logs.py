"""A pool's observations made again from its logs, for moments that its ring has forgotten.

The logs are those of a pool with the oracle of Uniswap v3. It writes one observation at most for a time, before the
first thing in it that changes its tick or the liquidity in range. Where a run of logs begins nothing is known of what
was before, so what is made of it begins with the first observation that is certain; its accumulators count from there,
and only differences of them mean anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec
from eth_typing import ABIComponentIndexed, ABIEvent

from core.contracts.events.layout import by_topic, layout, num
from scripts._verify.pool_readings import Observation, PoolState


class Initialized(msgspec.Struct, frozen=True, gc=False):
    tick: int


class Swapped(msgspec.Struct, frozen=True, gc=False):
    """The pool after a swap; `liquidity` is what is in range."""

    liquidity: int
    tick: int


class LiquidityMoved(msgspec.Struct, frozen=True, gc=False):
    """Liquidity put between two ticks, or taken away: then `liquidity` is below zero."""

    lower: int
    upper: int
    liquidity: int


PoolChange: TypeAlias = Initialized | Swapped | LiquidityMoved


def _initialized(_t: bytes, d: bytes) -> Initialized:
    return Initialized(num(d[32:64], signed=True))


def _swapped(_t: bytes, d: bytes) -> Swapped:
    return Swapped(num(d[96:128]), num(d[128:160], signed=True))


def _minted(t: bytes, d: bytes) -> LiquidityMoved:
    return LiquidityMoved(num(t[64:96], signed=True), num(t[96:128], signed=True), num(d[32:64]))


def _burned(t: bytes, d: bytes) -> LiquidityMoved:
    return LiquidityMoved(num(t[64:96], signed=True), num(t[96:128], signed=True), -num(d[:32]))


def _event(name: str, *arguments: str) -> ABIEvent:
    parts = [argument.split() for argument in arguments]
    inputs: list[ABIComponentIndexed] = [{"name": "", "type": kind, "indexed": bool(rest)} for kind, *rest in parts]
    return {"type": "event", "name": name, "inputs": inputs}


_SWAP = ("address indexed", "address indexed", "int256", "int256", "uint160", "uint128", "int24")

POOL_EVENTS = by_topic(
    layout(_event("Initialize", "uint160", "int24"), _initialized),
    layout(_event("Swap", *_SWAP), _swapped),
    layout(_event("Swap", *_SWAP, "uint128", "uint128"), _swapped),  # PancakeSwap's, with two numbers more
    layout(
        _event("Mint", "address", "address indexed", "int24 indexed", "int24 indexed", "uint128", "uint256", "uint256"),
        _minted,
    ),
    layout(
        _event("Burn", "address indexed", "int24 indexed", "int24 indexed", "uint128", "uint256", "uint256"), _burned
    ),
)


def pool_from_logs(changes: Iterable[tuple[int, PoolChange]]) -> PoolState | None:
    """The pool after all of these, each with the time of its block, in chain order and without a gap. None while they
    do not even tell one observation."""
    rebuilding = _Rebuilding()
    for time, change in changes:
        rebuilding.apply(time, change)
    return rebuilding.pool


class _Rebuilding:
    """A pool while its logs are read. `since`: the time of the log that first told its state."""

    def __init__(self) -> None:
        self._tick: int | None = None
        self._liquidity = 0
        self._since = 0
        self._observations: list[Observation] = []

    @property
    def pool(self) -> PoolState | None:
        if self._tick is None or not self._observations:
            return None
        return PoolState(self._observations, self._tick, self._liquidity)

    def apply(self, time: int, change: PoolChange) -> None:
        match change:
            case Initialized():
                self._tick, self._liquidity, self._since = change.tick, 0, time
                self._observations = [Observation(time, 0, 0)]
            case Swapped():
                self._swap(time, change)
            case LiquidityMoved():
                self._move(time, change)

    def _swap(self, time: int, change: Swapped) -> None:
        if self._tick is None:
            self._since = time
        elif change.tick != self._tick:
            self._write(time)
        self._tick, self._liquidity = change.tick, change.liquidity

    def _move(self, time: int, change: LiquidityMoved) -> None:
        if self._tick is None or not change.lower <= self._tick < change.upper or not change.liquidity:
            return
        self._write(time)
        self._liquidity += change.liquidity

    def _write(self, time: int) -> None:
        """What has stood until now, unless this time has its observation already."""
        assert self._tick is not None
        if self._observations:
            last = self._observations[-1]
            if time > last.time:
                self._observations.append(last.then(time, self._tick, self._liquidity))
        elif time > self._since:
            # Of the log that first told the state nobody knows whether it wrote one, so another of its time may not.
            self._observations.append(Observation(time, 0, 0))

"""Random market histories: everything that happens to one market, block by block, from its seed to its last payout. A
history is a list of steps with concrete numbers, so that contract, mirror and model can each run through exactly the
same one. The generator asks the model for the edges (headroom, the last unpaid winner) and goes there often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tests.contracts.model.parimutuel import Model

ACTORS = 8
"""Entries belong to actors 0..7; the opener is actor 8, the treasury none of them."""
OPENER = ACTORS
MAX_ENTRY = 10**14
GIANT_ENTRY = 2**46
"""A few of these reach the highest cap that a side may have."""
MAX_SIDE_CAP = 2**48 - 1
MAX_CROWD = 8
MAX_KAPPA = 10**9
MAX_FEE = 10_000
"""What `VestedMarkets` allows at most, in basis points."""


@dataclass(frozen=True)
class Enter:
    actor: int
    side: int
    amount: int


@dataclass(frozen=True)
class NextBlock:
    """A step in which `block.number` rises."""

    blocks: int


@dataclass(frozen=True)
class Wait:
    """A step in which time passes and `block.number` stays."""

    seconds: int


@dataclass(frozen=True)
class Finalize:
    """A call of `finalizeVintage`, refused while the vintage is open or if there is none."""


@dataclass(frozen=True)
class Transfer:
    entry: int
    to: int


@dataclass(frozen=True)
class Check:
    """A comparison of everything that can be read."""


@dataclass(frozen=True)
class Freeze:
    """The freeze, in the current block: no more entries, and an open vintage is over."""


@dataclass(frozen=True)
class Resolve:
    winner: int


@dataclass(frozen=True)
class Void:
    by_resolver: bool


@dataclass(frozen=True)
class Refund:
    """A call of `withdrawRefund`, refused if nothing is due."""

    entry: int


@dataclass(frozen=True)
class Claim:
    """A call of `claim`, refused if the market is open or nothing is due."""

    entry: int


@dataclass(frozen=True)
class Deliver:
    """A call of `deliver`, which skips entries with nothing due."""

    entries: tuple[int, ...]


@dataclass(frozen=True)
class TakeResidue:
    """A call of `claimResidue`, refused while a winner is unpaid, or if there is none."""


Step: TypeAlias = (
    Enter
    | NextBlock
    | Wait
    | Freeze
    | Finalize
    | Transfer
    | Check
    | Resolve
    | Void
    | Refund
    | Claim
    | Deliver
    | TakeResidue
)


@dataclass(frozen=True)
class History:
    kappa: int
    fee_bps: int
    seed: int
    side_cap: int
    steps: tuple[Step, ...]


def log_uniform(rng: Random, low: int, high: int) -> int:
    """Return an integer in [low, high] with a uniformly distributed number of digits."""
    bits = rng.randint(low.bit_length(), high.bit_length())
    return min(high, max(low, rng.randint(1 << (bits - 1), (1 << bits) - 1)))


class Run:
    """A model that follows a history's steps, one at a time. `block` is the chain's, from 1."""

    def __init__(self, kappa: int, fee_bps: int, seed: int, side_cap: int) -> None:
        self.model = Model(kappa, fee_bps, seed, str(OPENER), side_cap)
        self.block = 1

    def do(self, step: Step) -> None:
        model = self.model
        match step:
            case Enter(actor, side, amount):
                model.enter(str(actor), side, amount, self.block)
            case NextBlock(blocks):
                self.block += blocks
                model.reach(self.block)
            case Transfer(entry, to):
                model.entries[entry].owner = str(to)
            case Freeze():
                model.freeze()
            case Resolve(winner):
                model.resolve(winner)
            case Void():
                model.void()
            case Refund(entry):
                model.send_refund(model.entries[entry])
            case Claim(entry):
                if model.settled:
                    model.send_all(model.entries[entry])
            case Deliver(entries):
                for entry in entries:
                    model.send_all(model.entries[entry])
            case Wait() | Finalize() | Check() | TakeResidue():
                pass


class Generator:
    """The maker of one history of `entries` entries, besides the seed. It knows the state that the history has
    reached."""

    def __init__(self, rng: Random, entries: tuple[int, int]) -> None:
        self.rng = rng
        self.wanted = rng.randint(*entries)
        self.kappa = rng.choice((1, 2, 3, 30, 30, MAX_KAPPA, log_uniform(rng, 1, MAX_KAPPA)))
        self.fee_bps = rng.choice((0, 1, 200, MAX_FEE, rng.randint(0, MAX_FEE)))
        giant = self.chance(0.08)
        self.largest = GIANT_ENTRY if giant else MAX_ENTRY
        self.seed = rng.choice(
            (1, rng.randint(1, 50), 10**7, log_uniform(rng, 1, MAX_ENTRY), log_uniform(rng, 10**6, 10**9))
        )
        if giant:
            self.seed = log_uniform(rng, GIANT_ENTRY >> 8, GIANT_ENTRY << 1)
        self.side_cap = rng.choice(
            (MAX_SIDE_CAP, MAX_SIDE_CAP, log_uniform(rng, self.seed, MAX_SIDE_CAP), self.seed * rng.randint(1, 99))
        )
        self.side_cap = min(MAX_SIDE_CAP, self.side_cap)
        self.run = Run(self.kappa, self.fee_bps, self.seed, self.side_cap)
        self.model = self.run.model
        self.amount = self.regime()
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        self.run.do(step)
        self.steps.append(step)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def regime(self) -> Callable[[int], int]:
        """Choose how this market's entries are sized: by the seed, near the headroom's edge, tiny, huge, or mixed."""
        rng, model = self.rng, self.model

        def near_seed(_: int) -> int:
            return rng.randint(1, max(1, 4 * self.seed))

        def edge(side: int) -> int:
            return model.headroom(side) + rng.choice((-1, 0, 0, 1))

        def half_edge(side: int) -> int:
            return model.headroom(side) // rng.randint(2, 5)

        def over_edge(side: int) -> int:
            return model.headroom(side) * rng.randint(2, 4) + rng.randint(0, 9)

        def tiny(_: int) -> int:
            return rng.randint(1, 9)

        def any_size(_: int) -> int:
            return log_uniform(rng, 1, self.largest)

        def largest(_: int) -> int:
            return self.largest - rng.randint(0, 99)

        every = (near_seed, edge, half_edge, over_edge, tiny, any_size, largest)

        def mixed(side: int) -> int:
            return rng.choice(every)(side)

        if self.largest == GIANT_ENTRY:
            return rng.choice((largest, largest, mixed))
        return rng.choice((*every, mixed, mixed, mixed))

    def make(self) -> History:
        left = self.wanted
        while left > 0:
            crowd = min(left, self.rng.choice((1, 1, 2, 3, 5, MAX_CROWD)))
            left -= crowd
            self.vintage(crowd)
            if left > 0:
                self.between_vintages()
        self.settle()
        self.pay()
        return History(self.kappa, self.fee_bps, self.seed, self.side_cap, tuple(self.steps))

    def vintage(self, crowd: int) -> None:
        one_sided = self.chance(0.3)
        side = self.rng.randint(0, 1)
        for _ in range(crowd):
            if not one_sided:
                side = self.rng.randint(0, 1)
            amount = min(self.largest, max(1, self.amount(side)))
            self.add(Enter(self.rng.randrange(ACTORS), side, amount))
            if self.chance(0.06):
                self.add(Wait(self.rng.randint(1, 12)))
        if self.chance(0.15):
            self.add(Check())

    def between_vintages(self) -> None:
        self.add(NextBlock(self.rng.choice((1, 1, 1, 7))))
        if self.chance(0.2):
            self.add(Check())
        if self.chance(0.2):
            self.add(Finalize())
            if self.chance(0.3):
                self.add(Check())
        if self.chance(0.15):
            self.add(Refund(self.likely_refused()))
        if self.chance(0.1):
            self.add(Deliver(tuple(self.some_entries(3))))
        if self.chance(0.15):
            self.transfer()

    def some_entries(self, most: int) -> list[int]:
        return [self.rng.randrange(len(self.model.entries)) for _ in range(self.rng.randint(1, most))]

    def likely_refused(self) -> int:
        refused = [e.number for e in self.model.entries if self.model.unsent(e).refund > 0]
        return self.rng.choice(refused) if refused else self.some_entries(1)[0]

    def transfer(self) -> None:
        entry = self.rng.choice(self.model.entries)
        to = self.rng.randrange(ACTORS)
        if str(to) != entry.owner:
            self.add(Transfer(entry.number, to))

    def settle(self) -> None:
        steps = (NextBlock(1), Finalize(), Check())
        for step in steps:
            if self.chance(0.3):
                self.add(step)
        self.add(Freeze())
        for step in steps:
            if self.chance(0.2):
                self.add(step)
        outcome = self.rng.choice((0, 0, 1, 1, None))
        self.add(Void(self.chance(0.5)) if outcome is None else Resolve(outcome))
        self.add(Check())

    def pay(self) -> None:
        """Pay everything at the end, by claims, refunds and overlapping batches in any order."""
        left = [e.number for e in self.model.entries]
        self.rng.shuffle(left)
        while left:
            dice = self.rng.random()
            if dice < 0.15:
                self.add(Claim(left[-1]))
            elif dice < 0.3:
                self.add(Refund(left[-1]))
            elif dice < 0.35:
                self.transfer()
            elif dice < 0.4:
                self.add(Check())
            elif dice < 0.45:
                self.add(TakeResidue())
            else:
                size = self.rng.randint(1, 12)
                batch, left = left[:size], left[size:]
                if self.chance(0.2):
                    batch.append(self.rng.choice(batch))
                self.add(Deliver(tuple(batch)))
        self.add(TakeResidue())
        self.add(Check())


def generate(rng: Random, entries: tuple[int, int] = (8, 24)) -> History:
    """Generate a history; the same generator state gives the same one."""
    return Generator(rng, entries).make()

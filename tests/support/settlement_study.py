"""What honest bettors lose, measured over the real mirror: crowds, adversaries, and the best they can do.

A market has a true probability for each outcome, and the lister states a prior that is off by some noise. Honest
bettors come one after the other; each has a noisy estimate of its own and an amount of its own. By crowd:

- `PAYOUT` bets where estimate times projected payout, as a quote shows it, is the most;
- `PRICE` bets where estimate over price is the most, and does not look at what would be paid;
- `TASTE` bets on an outcome drawn from its estimate, whatever it costs and pays.

Adversaries know the true probabilities exactly. What they do is searched, not assumed:

- `opening` moves the price at the start a fraction of the way to the truth: whichever fraction costs the crowd most
  over the whole study;
- `close` sees the final book and stakes what earns it most in expectation, over every outcome and many amounts;
- `tiny` is an early holder of the outcome it thinks best, who adds a dollar on the least held other one before the
  close when that earns anything.

Losses are expectations over every outcome that could win, as a part of what was staked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import exp, log
from random import Random
from typing import Final

from core.agent.book import Book

USD: Final = 10**6
FEE_BPS: Final = 200
OPENING_FRACTIONS: Final = (0.25, 0.5, 0.75, 1.0)
CLOSE_SIZES: Final = tuple(round(USD * 1.6**k) for k in range(18))


class Crowd(Enum):
    PAYOUT = "payout"
    PRICE = "price"
    TASTE = "taste"


@dataclass(frozen=True, slots=True)
class World:
    """One cell of the study."""

    outcomes: int
    bets: int
    crowd: Crowd = Crowd.PAYOUT
    average_weight: int = 10 * USD
    prior_noise: float = 0.5
    estimate_noise: float = 0.5
    spread: float = 1.0
    """Of the true log-odds: 0 is all alike."""
    median_stake: float = 20.0
    fee_bps: int = FEE_BPS


@dataclass(slots=True)
class Tally:
    staked: float = 0.0
    paid: float = 0.0

    def add(self, amount: int, worth: float) -> None:
        self.staked += amount
        self.paid += worth

    @property
    def loss(self) -> float:
        """Of what was staked, as a fraction."""
        return 1 - self.paid / self.staked if self.staked else 0.0


@dataclass(slots=True)
class Result:
    honest: Tally = field(default_factory=Tally)
    early: Tally = field(default_factory=Tally)
    late: Tally = field(default_factory=Tally)
    adversary: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class Stake:
    outcome: int
    amount: int
    shares: int


def softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    parts = [exp(x - top) for x in logits]
    return [part / sum(parts) for part in parts]


def noisy(probabilities: Sequence[float], noise: float, random: Random) -> list[float]:
    return softmax([log(p) + random.gauss(0, noise) for p in probabilities])


def price(book: Book, outcome: int) -> float:
    return book.weight(outcome) / book.total_weight


def worth(book: Book, stake: Stake, truth: Sequence[float]) -> float:
    """What a stake of a final book is paid in expectation, over every outcome that could win."""
    return sum(p * book.owed(winner, stake.outcome, stake.amount, stake.shares) for winner, p in enumerate(truth))


def place(book: Book, outcome: int, amount: int) -> tuple[Book, Stake]:
    book, got = book.staked(outcome, amount)
    return book, Stake(outcome, amount, got.shares)


def to_price(book: Book, outcome: int, target: float) -> int:
    """The gross stake that moves an outcome to a price, none if it is there: (w + s) / (W + s) = target."""
    weight, total = book.weight(outcome), book.total_weight
    net = (target * total - weight) / (1 - target)
    return max(0, int(net * 10_000 / (10_000 - book.fee_bps)))


def best_at_the_close(book: Book, truth: Sequence[float]) -> tuple[Book, Stake] | None:
    best, gain = None, 0.0
    for outcome in range(book.outcomes):
        for amount in CLOSE_SIZES:
            after, stake = place(book, outcome, amount)
            profit = worth(after, stake, truth) - amount
            if profit > gain:
                best, gain = (after, stake), profit
    return best


def honest_bet(book: Book, world: World, truth: Sequence[float], random: Random) -> tuple[Book, Stake]:
    estimate = noisy(truth, world.estimate_noise, random)
    amount = round(USD * min(10 * world.median_stake, max(1.0, world.median_stake * exp(random.gauss(0, 0.8)))))
    outcomes = range(world.outcomes)
    if world.crowd is Crowd.TASTE:
        return place(book, random.choices(outcomes, estimate)[0], amount)
    if world.crowd is Crowd.PRICE:
        return place(book, max(outcomes, key=lambda o: estimate[o] / price(book, o)), amount)
    placed = [place(book, outcome, amount) for outcome in outcomes]
    return max(placed, key=lambda one: worth(one[0], one[1], estimate))


def weights(prior: Sequence[float], average: int) -> tuple[int, ...]:
    """As a lister states a prior, no outcome under a tenth of the average."""
    total = average * len(prior)
    return tuple(max(average // 10, round(p * total)) for p in prior)


@dataclass(frozen=True, slots=True)
class Adversaries:
    opening: float = 0.0
    """The fraction of the way to the truth that the price is moved; 0: nobody."""
    close: bool = False
    tiny: bool = False


def play(world: World, adversaries: Adversaries, random: Random, result: Result) -> None:
    truth = softmax([random.gauss(0, world.spread) for _ in range(world.outcomes)])
    book = Book.empty(weights(noisy(truth, world.prior_noise, random), world.average_weight), world.fee_bps)
    theirs: list[Stake] = []
    if adversaries.opening:
        outcome = max(range(world.outcomes), key=lambda o: truth[o] / price(book, o))
        aim = price(book, outcome) + adversaries.opening * (truth[outcome] - price(book, outcome))
        amount = to_price(book, outcome, aim)
        if amount >= USD:
            book, stake = place(book, outcome, amount)
            theirs.append(stake)
    honest: list[Stake] = []
    for _ in range(world.bets):
        book, stake = honest_bet(book, world, truth, random)
        honest.append(stake)
    if adversaries.tiny and theirs:
        others = [o for o in range(world.outcomes) if o != theirs[0].outcome]
        after, stake = place(book, min(others, key=lambda o: book.net[o]), USD)
        if worth(after, stake, truth) - USD + worth(after, theirs[0], truth) > worth(book, theirs[0], truth):
            book = after
            theirs.append(stake)
    if adversaries.close:
        last = best_at_the_close(book, truth)
        if last is not None:
            book = last[0]
            theirs.append(last[1])
    half = world.bets // 2
    for position, stake in enumerate(honest):
        paid = worth(book, stake, truth)
        result.honest.add(stake.amount, paid)
        (result.early if position < half else result.late).add(stake.amount, paid)
    for stake in theirs:
        result.adversary.add(stake.amount, worth(book, stake, truth))


def measure(world: World, adversaries: Adversaries, rounds: int, seed: int = 1) -> Result:
    result = Result()
    for n in range(rounds):
        play(world, adversaries, Random(f"{seed}:{n}:{world.outcomes}:{world.bets}"), result)
    return result


def worst(world: World, adversaries: Adversaries, rounds: int, seed: int = 1) -> Result:
    """With the opening that costs the crowd most; without an opening there is nothing to choose."""
    fractions = OPENING_FRACTIONS if adversaries.opening else (0.0,)
    results = [measure(world, replace(adversaries, opening=fraction), rounds, seed) for fraction in fractions]
    return max(results, key=lambda result: result.honest.loss)


NOBODY: Final = Adversaries()
OPENING: Final = Adversaries(opening=1.0)
CLOSE: Final = Adversaries(close=True)
TINY: Final = Adversaries(opening=1.0, tiny=True)
ALL: Final = Adversaries(opening=1.0, close=True, tiny=True)
NAMED: Final = {"nobody": NOBODY, "opening": OPENING, "close": CLOSE, "tiny": TINY, "all": ALL}

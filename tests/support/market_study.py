"""Markets of both kinds played with a crowd, through the mirrors that tests hold to the contracts to the unit.

**The event.** A driftless Brownian motion X is above zero at the end of the measured time, which runs from 0 to 1. At
time s the probability is Phi(X / sqrt(1 - s)): a martingale that begins at one half and ends at 0 or 1.

**The crowd.** Forty bets at random moments, 20 USD in the median. Each bettor knows the probability of the moment up to
a normal error of 0.5 in the log-odds. Half of them bet by *belief*: on an outcome drawn with their estimate, at any
price. The other half bet by *value*: on the outcome with the highest estimate times projected payout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import erf, exp, log, sqrt
from random import Random
from typing import Final

from core.agent.book import Book
from core.money import USD
from core.stock.vested import (
    DOWN,
    UP,
    Moment,
    Position,
    Settlement,
    Terms,
    VestedMarket,
    Vintage,
    accepted_of,
    classic_payout,
    fee_on_gain,
    match,
    offer,
    open_books,
    seed_vintage,
    settlement,
)

STEPS: Final = 100
"""Of the measured time."""
MAX_BET: Final = 100.0
"""The most one stock entry takes, and so the most that one of the crowd bets, in USD."""


@dataclass(frozen=True, slots=True)
class Regime:
    """When bets are taken. `before`: the part of the betting time in which nothing is measured yet; `until`: how much
    of the measured time has passed when bets end."""

    name: str
    before: float
    until: float

    def measured(self, u: float) -> float:
        return 0.0 if u <= self.before else self.until * (u - self.before) / (1 - self.before)


BELL: Final = Regime("bell", 0.5, 1.0)
"""Until the very end, as on stock markets: half of the bets before the opening bell, half during the session."""
HALF: Final = Regime("half", 0.0, 0.5)
"""At most half of what can still move, as the lister of agent markets has it for thresholds and ranges."""
BEFORE: Final = Regime("before", 1.0, 0.0)
"""Nothing is measured while bets are taken, as in agent markets on a direction."""


@dataclass(frozen=True, slots=True)
class Bettors:
    """A crowd: how many bet, how much, how well they know the probability, and which part of them bets by value."""

    bets: int = 40
    median_usd: float = 20.0
    spread: float = 0.8
    noise: float = 0.5
    by_value: float = 0.5

    @property
    def mean_usd(self) -> float:
        return self.median_usd * exp(self.spread**2 / 2)


@dataclass(frozen=True, slots=True)
class Bettor:
    u: float
    amount: int
    error: float
    by_value: bool
    draw: float


@dataclass(frozen=True, slots=True)
class Draw:
    path: tuple[float, ...]
    """The probability of UP at each step of the measured time."""
    bettors: tuple[Bettor, ...]

    def probability(self, s: float) -> float:
        return self.path[min(STEPS, round(s * STEPS))]


def drawn(seed: str, crowd: Bettors) -> Draw:
    random = Random(seed)
    x, path = 0.0, [0.5]
    for step in range(1, STEPS + 1):
        x += random.gauss(0, 1) / sqrt(STEPS)
        path.append(_above(x, 1 - step / STEPS))
    moments = sorted(random.random() for _ in range(crowd.bets))
    bettors = tuple(
        Bettor(
            u=u,
            amount=round(USD * min(MAX_BET, max(1.0, crowd.median_usd * exp(random.gauss(0, crowd.spread))))),
            error=random.gauss(0, crowd.noise),
            by_value=random.random() < crowd.by_value,
            draw=random.random(),
        )
        for u in moments
    )
    return Draw(tuple(path), bettors)


def _above(x: float, left: float) -> float:
    if left <= 1e-9:
        return 1.0 if x > 0 else 0.0
    return (1 + erf(x / sqrt(2 * left))) / 2


def estimated(probability: float, error: float) -> float:
    clipped = min(1 - 1e-9, max(1e-9, probability))
    return 1 / (1 + exp(-(log(clipped / (1 - clipped)) + error)))


FREEZE: Final = 10**9
OVER: Final = Moment(0, FREEZE)
"""After the freeze: no vintage is open."""
BLOCKS: Final = 5_000
"""Of the betting time: a block of twelve seconds in about 17 hours."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the venue chooses, in the units of the contracts. The defaults are those of deployments/*.json."""

    fee_bps: int = 200
    kappa: int = 10
    seed: int = 3 * USD
    side_cap: int = 2_500 * USD
    weight: int = 10 * USD
    blocks: int = BLOCKS


@dataclass
class _Market:
    parameters: Parameters

    def close(self) -> None:
        """End the bets."""


class Vested(_Market):
    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        p = parameters
        terms = Terms(1, b"", b"", FREEZE, 0, p.fee_bps, p.kappa, p.seed, 1, 2**47, p.side_cap)
        self._market = VestedMarket(terms, open_books(parameters.seed))
        self._positions: list[Position] = []
        self._vintages: dict[int, Vintage] = {}
        self._settled: dict[tuple[int, int], Settlement] = {}
        self._resolved: dict[int, VestedMarket] = {}

    def enter(self, side: int, amount: int, block: int) -> int:
        number = block + 1  # 0 is the seed's
        self._match(unless=number)
        self._market, before = offer(self._market, side, amount, number)
        self._positions.append(Position(len(self._positions), 1, b"", side, amount, number, before))
        return len(self._positions) - 1

    def projected(self, side: int, amount: int, others: float, to_come: float) -> float:
        side_total = self._market.books[side].principal + amount + to_come * others / 2
        gain = to_come * (1 - others) / side_total
        return 1 + gain * (1 - self.parameters.fee_bps / 10_000)

    def close(self) -> None:
        self._match()

    def _match(self, unless: int = -1) -> None:
        if self._market.vintage is not None and self._market.vintage.number != unless:
            self._market, vintage = match(self._market)
            self._vintages[vintage.number] = vintage

    def staked(self, bet: int) -> int:
        position = self._positions[bet]
        accepted = accepted_of(position, self._vintages[position.vintage])
        assert accepted is not None
        return accepted

    def paid(self, bet: int, winner: int) -> int:
        return self._settlement(bet, winner).net

    def fees(self, winner: int) -> int:
        taken = (self._settlement(bet, winner).fee for bet in range(len(self._positions)))
        return sum(taken) + self._seed(winner).fee

    def seed_gain(self, winner: int) -> int:
        return self._seed(winner).net - 2 * self.parameters.seed

    def _settlement(self, bet: int, winner: int) -> Settlement:
        if (bet, winner) not in self._settled:
            position = self._positions[bet]
            vintage = self._vintages[position.vintage]
            self._settled[bet, winner] = settlement(self._won(winner), position, vintage, OVER)
        return self._settled[bet, winner]

    def _seed(self, winner: int) -> Settlement:
        seed = self.parameters.seed
        leg = Position(0, 1, b"", winner, seed, 0, 0)
        return settlement(self._won(winner), leg, seed_vintage(seed), OVER)

    def _won(self, winner: int) -> VestedMarket:
        if winner not in self._resolved:
            self._resolved[winner] = replace(self._market, winner=winner)
        return self._resolved[winner]


class Classic(_Market):
    """An ordinary pool with the same seed, which takes every bet whole."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._pools = [parameters.seed, parameters.seed]
        self._bets: list[tuple[int, int]] = []

    def enter(self, side: int, amount: int, block: int) -> int:
        self._pools[side] += amount
        self._bets.append((side, amount))
        return len(self._bets) - 1

    def projected(self, side: int, amount: int, others: float, to_come: float) -> float:
        pool, own = sum(self._pools) + amount, self._pools[side] + amount
        return classic_payout(amount, pool, own, self.parameters.fee_bps) / amount

    def staked(self, bet: int) -> int:
        return self._bets[bet][1]

    def paid(self, bet: int, winner: int) -> int:
        side, amount = self._bets[bet]
        return self._payout(amount, winner) if side == winner else 0

    def _payout(self, amount: int, winner: int) -> int:
        return classic_payout(amount, sum(self._pools), self._pools[winner], self.parameters.fee_bps)

    def fees(self, winner: int) -> int:
        own = [amount for side, amount in self._bets if side == winner] + [self.parameters.seed]
        pool, winning = sum(self._pools), self._pools[winner]
        return sum(fee_on_gain(each * pool // winning, each, self.parameters.fee_bps) for each in own)

    def seed_gain(self, winner: int) -> int:
        return self._payout(self.parameters.seed, winner) - 2 * self.parameters.seed


class Shares(_Market):
    """An agent market as the settlement wallet has it. It has no seed: its weights are no money."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._book = Book.empty((parameters.weight, parameters.weight), parameters.fee_bps)
        self._bets: list[tuple[int, int, int]] = []

    def enter(self, side: int, amount: int, block: int) -> int:
        self._book, got = self._book.staked(side, amount)
        self._bets.append((side, amount, got.shares))
        return len(self._bets) - 1

    def projected(self, side: int, amount: int, others: float, to_come: float) -> float:
        after, got = self._book.staked(side, amount)
        if after.refunds(side):  # the other side is empty: its price says what to hope for
            return got.shares / amount
        return after.projected(side, amount, got.shares) / amount

    def staked(self, bet: int) -> int:
        return self._bets[bet][1]

    def paid(self, bet: int, winner: int) -> int:
        side, amount, shares = self._bets[bet]
        return self._book.owed(winner, side, amount, shares)

    def fees(self, winner: int) -> int:
        taken = sum(amount for _, amount, _ in self._bets) - self._book.net_pool
        return 0 if self._book.refunds(winner) else taken

    def seed_gain(self, winner: int) -> int:
        return 0


Play = Vested | Classic | Shares
"""A market while it is played. Bets are numbered from 0 in the order in which they came. `projected` is the payout per
unit of a winning bet on a side, if `to_come` units of later bets come, the part `others` of them on the same side."""

MECHANISMS: Final[dict[str, Callable[[Parameters], Play]]] = {"vested": Vested, "classic": Classic, "shares": Shares}
SIDES: Final = (UP, DOWN)


@dataclass(frozen=True, slots=True)
class Setting:
    mechanism: str
    regime: Regime
    crowd: Bettors = field(default_factory=Bettors)
    parameters: Parameters = field(default_factory=Parameters)


@dataclass(frozen=True, slots=True)
class PlayedBet:
    at: float
    offered: int
    taken: int
    expected: float


@dataclass(frozen=True, slots=True)
class Played:
    crowd: list[PlayedBet]
    fees: float
    seed_gain: float
    play: Play
    chance: float
    """Return the probability of UP, as far as a bettor could know."""


def played(setting: Setting, draw: Draw) -> Played:
    play = MECHANISMS[setting.mechanism](setting.parameters)
    bets: list[tuple[int, Bettor]] = []
    count = len(draw.bettors)
    mean = setting.crowd.mean_usd * USD
    for position, bettor in enumerate(draw.bettors):
        estimate = estimated(draw.probability(setting.regime.measured(bettor.u)), bettor.error)
        side = _side(play, bettor, estimate, (count - position - 1) * mean)
        bets.append((play.enter(side, bettor.amount, _block(bettor.u, setting)), bettor))
    play.close()
    chance = draw.probability(min(1.0, setting.regime.until))
    crowd = [
        _outcome(play, bet, position / count, bettor.amount, chance) for position, (bet, bettor) in enumerate(bets)
    ]
    fees, gain = (_mean(chance, [ask(w) for w in SIDES]) / USD for ask in (play.fees, play.seed_gain))
    return Played(crowd, fees, gain, play, chance)


def _block(u: float, setting: Setting) -> int:
    return int(u * setting.parameters.blocks)


def _side(play: Play, bettor: Bettor, estimate: float, to_come: float) -> int:
    if not bettor.by_value:
        return UP if bettor.draw < estimate else 1 - UP
    chances = (estimate, 1 - estimate)
    return max(SIDES, key=lambda side: chances[side] * play.projected(side, bettor.amount, chances[side], to_come))


def _outcome(play: Play, bet: int, at: float, amount: int, chance: float) -> PlayedBet:
    expected = _mean(chance, [play.paid(bet, winner) for winner in SIDES])
    return PlayedBet(at, amount, play.staked(bet), expected)


def _mean(chance: float, by_winner: Sequence[float]) -> float:
    return chance * by_winner[UP] + (1 - chance) * by_winner[1 - UP]


@dataclass(slots=True)
class Ratio:
    paid: float = 0.0
    staked: float = 0.0

    def add(self, bets: Iterable[PlayedBet]) -> None:
        for each in bets:
            self.paid += each.expected / USD
            self.staked += each.taken / USD

    @property
    def gain(self) -> float:
        """Return the expected return per unit, less that unit; 0 if nothing was staked."""
        return self.paid / self.staked - 1 if self.staked else 0.0


SEED: Final = "fairness"
QUARTERS: Final = 4

SETTINGS: Final = {
    "vested/bell": Setting("vested", BELL),
    "classic/bell": Setting("classic", BELL),
    "shares/half": Setting("shares", HALF),
    "shares/before": Setting("shares", BEFORE),
}
"""The first is what stock markets are, the last two what agent markets are; the ordinary pool is there to compare."""


@lru_cache(maxsize=5_000)
def market(number: int, crowd: Bettors) -> Draw:
    """Return the same random market in every cell, so that cells do not differ by chance."""
    return drawn(f"{SEED}:{number}", crowd)


@dataclass(frozen=True, slots=True)
class CrowdResult:
    """What a crowd can expect by when it bets, as a gain for each unit staked, and what the venue earns in USD a
    market."""

    everybody: float
    first: float
    last: float
    quarters: tuple[float, ...]
    fees: float
    seed: float
    least_seed: float
    refused: float


def crowd(setting: Setting, markets: int) -> CrowdResult:
    everybody, first, last = Ratio(), Ratio(), Ratio()
    quarters = [Ratio() for _ in range(QUARTERS)]
    results = [played(setting, market(number, setting.crowd)) for number in range(markets)]
    for result in results:
        everybody.add(result.crowd)
        first.add(result.crowd[:1])
        last.add(result.crowd[-1:])
        for each in result.crowd:
            quarters[int(each.at * QUARTERS)].add([each])
    offered = sum(each.offered for result in results for each in result.crowd)
    taken = sum(each.taken for result in results for each in result.crowd)
    return CrowdResult(
        everybody.gain,
        first.gain,
        last.gain,
        tuple(each.gain for each in quarters),
        sum(each.fees for each in results) / markets,
        sum(each.seed_gain for each in results) / markets,
        min(each.seed_gain for each in results),
        1 - taken / offered,
    )

"""An attacker on markets at their cap: thousands of attacks drawn at random, each tried on many courses of the price.

The cost of pushes comes from the model of a pool, the payouts from the exact mirror of the settlement wallet. The
price, and what the attacker makes of it, are floating point, in one array for all attacks of a batch: an attack is a
row, a course of the price a column.

In the unarbitraged world a push stays. In the arbitraged one there is a price elsewhere, at which the attacker trades
without cost, and the pool's stays within the fee of it. Each attack is compared with the same bet on the same courses
without any push: what it adds, less its cost, must not exceed the fee of the bet, which is what a fair bet loses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from core.agent.book import MIN_FEE_BPS, MIN_STAKE, Book, fee_of
from core.feeds.cost import SAFE_SHARE, PricedPool, cap_factor, price_after_move
from core.feeds.uniswap import MAX_TICK, Pool

Floats = npt.NDArray[np.float64]

STEPS = 24  # of a window
FARTHEST = 0.4  # the largest move of a price that a curve knows
GRID = 2_001
BLOCKS_OF_A_STEP = 30  # two seconds each: a window of 24 minutes, shorter than any that is allowed
FEES = (500, 3_000, 10_000)
KINDS = ("threshold", "early", "range", "direction")


# ---------------------------------------------------------------- What pushes cost


def pool_with(fee_pips: int, *positions: tuple[int, int]) -> Pool:
    """Return a pool at price 1. A position is the number of ticks on each side of the price, and its liquidity."""
    net: dict[int, int] = {}
    for ticks, liquidity in positions:
        net |= {-ticks: liquidity, ticks: -liquidity}
    return Pool(fee_pips, 1.0, 0, sum(liquidity for _, liquidity in positions), net)


def pool_of(fee_pips: int, concentrated: bool, scale: int = 10**24) -> Pool:
    """Return a pool at price 1: liquidity everywhere, or a tenth of it everywhere and the rest within 25% of the
    price."""
    if concentrated:
        return pool_with(fee_pips, (2_400, scale * 9 // 10), (MAX_TICK, scale // 10))
    return pool_with(fee_pips, (MAX_TICK, scale))


@dataclass(frozen=True)
class Curves:
    """Costs by kind of pool (its fee; every second one is concentrated), in units of phi * D1 dollars, on a grid of
    moves of the log price. `held`: the cost of a push without arbitrage. `through`: the cost from the lower edge of the
    fee band, if what is bought is worth what it costs elsewhere."""

    fees: Floats
    held: Floats
    through: Floats

    @classmethod
    @cache
    def measured(cls) -> Curves:
        fees, held, through = [], [], []
        moves = np.linspace(-FARTHEST, FARTHEST, GRID)
        for fee_pips in FEES:
            for concentrated in (False, True):
                source = PricedPool("", pool_of(fee_pips, concentrated), 1e-18, 1e-18)
                unit = source.phi * source.depth()
                fees.append(source.phi)
                rising = [source.cheapest_push_cost(move) / unit for move in moves[GRID // 2 + 1 :]]
                held.append([*reversed(rising), 0.0, *rising])
                through.append(_through(source, moves) / unit)
        return cls(np.array(fees), np.array(held), np.array(through))


def _through(source: PricedPool, moves: Floats) -> Floats:
    start = price_after_move(1.0, math.log(1 - source.phi))
    ends = [price_after_move(1.0, move) for move in moves]
    return np.array([source.swap_cost(start, end) if end > start else 0.0 for end in ends])


def _looked_up(curve: Floats, which: npt.NDArray[np.intp], moves: Floats) -> Floats:
    """Return values of each row's own curve, interpolated between two points of the grid."""
    place = np.clip((moves + FARTHEST) / (2 * FARTHEST) * (GRID - 1), 0, GRID - 1.001)
    below = place.astype(np.intp)
    part = place - below
    low, high = curve[which, below], curve[which, below + 1]
    looked_up: Floats = low + (high - low) * part
    return looked_up


# ---------------------------------------------------------------- Attacks


@dataclass
class Attacks:
    curve: npt.NDArray[np.intp]
    arbitraged: npt.NDArray[np.bool_]
    kind: str
    wander: Floats  # of the log price over a window
    gap: npt.NDArray[np.intp]  # steps from the last stake to the window, in which nothing is measured
    middle: npt.NDArray[np.intp]  # steps between the two windows of a direction, or of an early one beyond its first
    chance: Floats  # of the attacker's outcome, fair
    width: Floats  # of a range's bucket, in sd
    share: Floats  # of his side of the book that is the attacker's
    own: Floats  # share of the depth that is his own: withdrawn before he pushes
    begins: Floats  # how much of the window he lets pass before he pushes
    margin: Floats  # how many of the remaining sd he pushes beyond the edge
    patience: Floats  # what a push must earn, as a share of what he can win
    ahead: npt.NDArray[np.intp]  # for how many steps he holds an early one
    beyond: npt.NDArray[np.bool_]  # whether he pushes out of the band when arbitrageurs stand by
    fee: Floats
    dollars: Floats  # the cap, and the whole pot
    resistance: Floats  # phi * D1 of the whole pool, dollars

    def __len__(self) -> int:
        return len(self.curve)

    def some(self, places: npt.NDArray[np.intp]) -> Attacks:
        mine = {name: values[places] for name, values in vars(self).items() if name != "kind"}
        return Attacks(kind=self.kind, **mine)

    def joined(self, others: Sequence[Attacks]) -> Attacks:
        every = [vars(each) for each in (self, *others)]
        mine = {name: np.concatenate([each[name] for each in every]) for name in every[0] if name != "kind"}
        return Attacks(kind=self.kind, **mine)

    @classmethod
    def drawn(cls, dice: np.random.Generator, kind: str, count: int, factor: float | None = None) -> Attacks:
        fees = Curves.measured().fees
        curve = dice.integers(0, len(fees), count)
        fee = fees[curve]
        reach = np.exp(dice.uniform(math.log(0.02), math.log(0.6), count))
        wander = np.minimum(fee / reach, 0.1)
        factors = np.array([cap_factor(each) if factor is None else factor for each in fee / wander])
        dollars = np.exp(dice.uniform(math.log(30), math.log(30_000), count))
        sd = wander / math.sqrt(3)
        return cls(
            curve=curve,
            arbitraged=dice.random(count) < 0.5,
            kind=kind,
            wander=wander,
            gap=dice.integers(1, 12, count),
            middle=dice.integers(STEPS, 2 * STEPS, count),
            chance=np.where(dice.random(count) < 0.5, dice.uniform(0.2, 0.8, count), dice.uniform(0.02, 0.5, count)),
            width=dice.uniform(1.0, 4.0, count),
            share=np.where(dice.random(count) < 0.5, 1.0, dice.uniform(0.1, 1.0, count)),
            own=dice.choice((0.0, 0.25, SAFE_SHARE), count),
            begins=np.where(dice.random(count) < 0.3, -0.2, dice.uniform(0, 1, count)),
            margin=dice.uniform(0, 1.5, count),
            patience=dice.choice((0.0, 0.003, 0.01, 0.05, 0.2), count),
            ahead=dice.choice((STEPS // 4, STEPS // 2, STEPS), count),
            beyond=dice.random(count) < 0.3,
            fee=fee,
            dollars=dollars,
            resistance=dollars / (factors * sd * (1 - SAFE_SHARE)),
        )


@dataclass(frozen=True)
class Outcome:
    """The results of attacks, in dollars on the mean of all courses, and how uncertain that mean is."""

    added: Floats  # by pushes, less what they cost
    error: Floats
    fee: Floats  # that the bet paid
    stake: Floats
    pushed: Floats  # in how many courses anything was pushed

    @property
    def earned(self) -> Floats:
        return self.added - self.fee


def tried(attacks: Attacks, dice: np.random.Generator, courses: int) -> Outcome:
    plain = _Play(attacks, dice, courses).play()
    edges = plain.edges()
    wins = plain.wins(edges)
    stake, win, fee = _bets(attacks, wins.mean(1))
    attacked = _Play(attacks, dice, courses, edges, win, plain).play()
    gained = (attacked.wins(edges).astype(float) - wins) * win[:, None] - attacked.spent
    error = gained.std(1) / math.sqrt(courses)
    return Outcome(gained.mean(1), error, fee, stake, (attacked.spent > 0).mean(1))


def _bets(attacks: Attacks, chances: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the attacker's stake, payout and fee, from a book at fair odds that is at its cap."""
    made = []
    for dollars, chance, share in zip(attacks.dollars, chances, attacks.share, strict=True):
        pot = int(dollars * 10**6)
        side = max(MIN_STAKE, int(pot * min(max(chance, 0.01), 0.95)))
        own = max(MIN_STAKE, int(side * share))
        book = Book.empty((5 * 10**6, 5 * 10**6), MIN_FEE_BPS)
        for outcome, amount in ((1, pot - side), (0, side - own)):
            if amount >= MIN_STAKE:
                book, _ = book.staked(outcome, amount)
        book, got = book.staked(0, own)
        made.append((own, book.owed(0, 0, own, got.shares), fee_of(own, MIN_FEE_BPS)))
    stake, win, fee = np.array(made, dtype=float).T / 10**6
    return stake, win, fee


class _Play:
    """One pass over time for a batch of attacks. Nothing is pushed without `win`, the prize."""

    def __init__(
        self,
        attacks: Attacks,
        dice: np.random.Generator,
        courses: int,
        edges: tuple[Floats, Floats] | None = None,
        win: Floats | None = None,
        like: _Play | None = None,
    ) -> None:
        self.attacks, self.at, self.win = attacks, edges, win
        shape = (len(attacks), courses)
        self.curves = Curves.measured()
        self.unit = attacks.resistance * (1 - attacks.own)
        self.weights, self.early_from = _weights(attacks)
        steps = self.weights.shape[1]
        self.per_step = attacks.wander / math.sqrt(STEPS)
        band = np.where(attacks.arbitraged, attacks.fee, 0.0)[:, None]
        if like is None:
            self.noise = [dice.standard_normal(shape) * self.per_step[:, None] for _ in range(steps)]
            self.first = dice.uniform(-1, 1, shape) * band
        else:
            self.noise, self.first = like.noise, like.first
        self.spent = np.zeros(shape)
        self.measured = np.full(shape, -np.inf) if self.early else np.zeros(shape)
        # What is still to be weighed from each step on, and how much that still wanders.
        self.left = np.cumsum(self.weights[:, ::-1], 1)[:, ::-1]
        after = np.concatenate([self.left[:, 1:], np.zeros((len(attacks), 1))], 1)
        wander = np.sqrt(np.cumsum((after**2)[:, ::-1], 1)[:, ::-1]) * self.per_step[:, None]
        self.sd = np.maximum(wander, 1e-9)
        # How much of a place in the fee band is left, on the mean of the remaining window.
        rate = (math.pi * self.per_step / (2 * attacks.fee)) ** 2 / 2
        remaining = np.maximum((self.left != 0).sum(1)[:, None] - np.arange(steps), 1) * 1.0
        fades = rate[:, None] * np.minimum(remaining, STEPS)
        self.kept = np.where(attacks.arbitraged[:, None], -np.expm1(-fades) / fades, 1.0)

    @property
    def early(self) -> bool:
        return self.attacks.kind == "early"

    def play(self) -> _Play:
        arbitraged, band = self.attacks.arbitraged[:, None], self.attacks.fee[:, None]
        elsewhere = np.zeros_like(self.spent)  # the price without any push
        away = self.first.copy()  # of the pool's price from it
        sums = [np.zeros_like(self.spent)]  # of the prices so far
        for step, noise in enumerate(self.noise):
            price = elsewhere + away
            if self.win is not None:
                away = self._pushed(step, elsewhere, away, sums)
                price = elsewhere + away + self._lifted(step, price)
            if self.early:
                sums.append(sums[-1] + price)
                self._note_early(step, sums)
            else:
                self.measured += self.weights[:, step, None] * price
            elsewhere = elsewhere + noise
            # Arbitrageurs bring it back as far as they earn by it.
            away = np.where(arbitraged, np.clip(away - noise, -band, band), away)
        return self

    def _note_early(self, step: int, sums: list[Floats]) -> None:
        """Record early results. Such a market counts the reading of every step from its first whole window on."""
        rows = self.early_from <= step
        if rows.any() and step >= STEPS - 1:
            mean = (sums[-1][rows] - sums[-1 - STEPS][rows]) / STEPS
            self.measured[rows] = np.maximum(self.measured[rows], mean)

    # ---------------------------------------------------------------- Markets

    def edges(self) -> tuple[Floats, Floats]:
        """Return the edges that give each attacker's outcome its drawn probability."""
        attacks = self.attacks
        high = np.full(len(attacks), np.inf)
        if attacks.kind == "direction":
            return np.zeros(len(attacks)), high
        low = np.array(
            [np.quantile(row, 1 - chance) for row, chance in zip(self.measured, attacks.chance, strict=True)]
        )
        if attacks.kind == "range":
            high = low + attacks.width * attacks.wander / math.sqrt(3)
        return low, high

    def wins(self, edges: tuple[Floats, Floats]) -> npt.NDArray[np.bool_]:
        return (self.measured >= edges[0][:, None]) & (self.measured < edges[1][:, None])

    # ---------------------------------------------------------------- The attacker

    def _pushed(self, step: int, elsewhere: Floats, away: Floats, sums: list[Floats]) -> Floats:
        assert self.at is not None
        assert self.win is not None
        if self.early:
            return self._pushed_early(step, elsewhere, away, sums)
        kept, left = self.kept[:, step], self.left[:, step]
        expected = self.measured + left[:, None] * (elsewhere + away * kept[:, None])
        low, high = self.at[0][:, None], self.at[1][:, None]
        short = np.maximum(low - expected, expected - high)
        rows, courses = np.nonzero((short > 0) & (short < self._affordable(left)[:, None]) & self._started(step))
        if not len(rows):
            return away
        return self._better(
            rows, courses, away, expected[rows, courses], (left * kept)[rows], self.sd[rows, step], None
        )

    def _pushed_early(self, step: int, elsewhere: Floats, away: Floats, sums: list[Floats]) -> Floats:
        assert self.at is not None
        attacks = self.attacks
        pushed = away
        for ahead in np.unique(attacks.ahead):
            behind = STEPS - int(ahead)
            if step < behind:
                continue
            known = (sums[-1] - sums[-1 - behind]) / STEPS
            part = ahead / STEPS
            price = elsewhere + away
            expected = known + part * price
            low = self.at[0][:, None]
            end = attacks.gap + attacks.middle + STEPS
            mine = (attacks.ahead == ahead) & (self.early_from <= step + ahead - 1) & (step + ahead <= end)
            steers = np.full(len(attacks), part)
            near = (low - expected > 0) & (low - expected < self._affordable(steers)[:, None])
            rows, courses = np.nonzero(mine[:, None] & near & self._started(step) & (self.measured < low))
            if not len(rows):
                continue
            sd = attacks.wander[rows] / math.sqrt(3) * part**1.5
            # It may get there later without a push; the mean lags behind the price.
            later = np.maximum((end - ahead - step)[rows], 0) * 0.5 + 1e-6
            short = self.at[0][rows] - price[rows, courses]
            alone = np.minimum(1, 2 * _normal(-np.maximum(short, 0) / (self.per_step[rows] * np.sqrt(later))))
            pushed = self._better(rows, courses, pushed, expected[rows, courses], steers[rows], sd, alone)
        return pushed

    def _affordable(self, steers: Floats) -> Floats:
        """Return the largest distance from the edge over which a push can pay."""
        assert self.win is not None
        attacks = self.attacks
        free = 1.1 * self.win / (100 * self.unit) * np.abs(steers)
        return np.where(attacks.arbitraged, 2 * attacks.fee * np.abs(steers), np.maximum(free, 0))

    def _better(
        self,
        rows: npt.NDArray[np.intp],
        courses: npt.NDArray[np.intp],
        away: Floats,
        expected: Floats,
        steers: Floats,
        sd: Floats,
        alone: Floats | None,
    ) -> Floats:
        """Push on those courses where it pays. `alone`: the probability of winning without a push, where it does not
        follow from `sd`."""
        assert self.at is not None
        assert self.win is not None
        attacks, win = self.attacks, self.win[rows]
        low, high = self.at[0][rows], self.at[1][rows]
        beyond = attacks.margin[rows] * sd
        middle = np.where(np.isinf(high), np.inf, (low + high) / 2)
        aim = np.where(expected < low, np.minimum(low + beyond, middle), np.maximum(high - beyond, middle))
        usable = np.abs(steers) > 1e-6
        move = np.where(usable, (aim - expected) / np.where(usable, steers, 1.0), 0.0)
        here = away[rows, courses]
        most = np.where(attacks.arbitraged[rows], attacks.fee[rows], FARTHEST)
        target = np.clip(here + move, -most, most)
        cost = self._cost(rows, here, target)
        before = _between(low, high, expected, sd)
        after = _between(low, high, expected + steers * (target - here), sd)
        worth = (after - (before if alone is None else np.maximum(before, alone))) * win
        does = (worth - cost > attacks.patience[rows] * win) & (target != here)
        self.spent[rows, courses] += np.where(does, cost, 0.0)
        pushed = away.copy()
        pushed[rows, courses] = np.where(does, target, here)
        return pushed

    def _lifted(self, step: int, price: Floats) -> Floats | float:
        """Push out of the band in every block of the last step, where arbitrageurs bring the price back each time."""
        assert self.at is not None
        assert self.win is not None
        attacks = self.attacks
        last = (self.weights[:, step] > 0) & (self.left[:, step] <= self.weights[:, step] * 1.5)
        mine = last & attacks.arbitraged & attacks.beyond
        if self.early or not mine.any():
            return 0.0
        expected = self.measured + self.left[:, step, None] * price
        short = self.at[0][:, None] - expected
        rows, courses = np.nonzero(mine[:, None] & (short > 0) & (short < FARTHEST / 2 / STEPS))
        by = short[rows, courses] * STEPS * 1.01
        band, which = attacks.fee[rows], attacks.curve[rows]
        curve = self.curves.through
        again = _looked_up(curve, which, band + by) - _looked_up(curve, which, band)
        cost = again * BLOCKS_OF_A_STEP * self.unit[rows]
        pays = cost < self.win[rows]
        self.spent[rows, courses] += np.where(pays, cost, 0.0)
        lifted = np.zeros_like(price)
        lifted[rows, courses] = np.where(pays, by, 0.0)
        return lifted

    def _started(self, step: int) -> npt.NDArray[np.bool_]:
        first = np.argmax(self.weights != 0, 1)
        started: npt.NDArray[np.bool_] = (step >= first + self.attacks.begins * STEPS)[:, None]
        return started

    def _cost(self, rows: npt.NDArray[np.intp], here: Floats, target: Floats) -> Floats:
        which, held, through = self.attacks.curve[rows], self.curves.held, self.curves.through
        there, before = _looked_up(held, which, target), _looked_up(held, which, here)
        # Back towards where the price would be was paid for with the push; across it, the far side is new.
        free = np.where(np.sign(target) == np.sign(here), np.maximum(there - before, 0.0), there)
        rising = _looked_up(through, which, target) - _looked_up(through, which, here)
        falling = _looked_up(through, which, -target) - _looked_up(through, which, -here)
        banded = np.where(target >= here, rising, falling)
        cost: Floats = np.where(self.attacks.arbitraged[rows], banded, free) * self.unit[rows]
        return cost


def _weights(attacks: Attacks) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return each step's weight in the deciding reading, and the step from which an early one counts."""
    steps = 12 + 4 * STEPS
    weights = np.zeros((len(attacks), steps))
    early = np.full(len(attacks), steps)
    for row, (gap, middle) in enumerate(zip(attacks.gap, attacks.middle, strict=True)):
        last = gap
        if attacks.kind == "direction":
            weights[row, gap : gap + STEPS] = -1 / STEPS
            last = gap + STEPS + middle
        elif attacks.kind == "early":
            early[row] = gap + STEPS - 1
            last = gap + middle
        weights[row, last : last + STEPS] = 1 / STEPS
    used = int(np.max(np.nonzero(weights.any(0))[0])) + 1
    return weights[:, :used], early


def _between(low: Floats, high: Floats, expected: Floats, sd: Floats) -> Floats:
    above = _normal((expected - low) / sd)
    between: Floats = above - np.where(np.isinf(high), 0.0, _normal((expected - high) / sd))
    return between


def _normal(x: Floats) -> Floats:
    """Return the normal distribution within 0.0002, which is enough to guide the attacker."""
    x = np.clip(x, -8, 8)
    return 1 / (1 + np.exp(-1.5976 * x - 0.07056 * x**3))

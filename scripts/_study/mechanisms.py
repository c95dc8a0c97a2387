"""The three kinds of market, played through the mirrors that tests hold to the contracts to the unit.

`Vested` is `core.stock.vested`, `Classic` the ordinary pool of `core.stock.classic` that pages show beside it, and
`Shares` is `core.agent.book`. A play takes bets and says, for each outcome that could win, what every bet is paid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from core.agent.book import Book
from core.money import USD
from core.stock.classic import classic_payout, fee_on_gain
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
    match,
    offer,
    open_books,
    seed_vintage,
    settlement,
)

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


class Play(ABC):
    """A market while it is played. Bets are known by the order they came in, from 0."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    @abstractmethod
    def enter(self, side: int, amount: int, block: int) -> int:
        """Takes a bet; returns its number."""

    @abstractmethod
    def projected(self, side: int, amount: int, others: float, to_come: float) -> float:
        """What a bet on a side would be paid for each unit if it won, as somebody projects it who expects `to_come`
        units of bets after it, the part `others` of them on its own side."""

    @abstractmethod
    def close(self) -> None:
        """Ends the bets."""

    @abstractmethod
    def staked(self, bet: int) -> int:
        """What of a bet was taken."""

    @abstractmethod
    def paid(self, bet: int, winner: int) -> int:
        """What a bet is paid if `winner` wins, after the fee."""

    @abstractmethod
    def fees(self, winner: int) -> int:
        """What the venue takes in fees, of the seed's own gain too."""

    @abstractmethod
    def seed_gain(self, winner: int) -> int:
        """What the seed's owner is paid beyond the seed, after the fee."""


class Vested(Play):
    """A stock market as `VestedMarkets` has it."""

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
        beside = self._market.books[side].principal + amount + to_come * others / 2
        gain = to_come * (1 - others) / beside
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


class Classic(Play):
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

    def close(self) -> None:
        """Nothing is pending in an ordinary pool."""

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


class Shares(Play):
    """An agent market as the settlement wallet has it. Nobody seeds it: its weights are no money."""

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
        if after.refunds(side):  # nobody is on the other side yet: its price says what to hope for
            return got.shares / amount
        return after.projected(side, amount, got.shares) / amount

    def close(self) -> None:
        """A book has nothing pending."""

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


MECHANISMS: Final[dict[str, Callable[[Parameters], Play]]] = {"vested": Vested, "classic": Classic, "shares": Shares}
SIDES: Final = (UP, DOWN)

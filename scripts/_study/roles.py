"""Those beside the crowd: who comes first or last, who knows more, and who bets against himself.

Everybody stakes 20 USD where it says nothing else. What they do about the side and the size is the best they can find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.money import USD
from core.stock.vested import DOWN, UP
from scripts._study.mechanisms import SIDES
from scripts._study.playing import Guest, View

STAKE: Final = 20 * USD
SIZES: Final = tuple(round(USD * size) for size in (1, 2, 5, 10, 20, 50, 100, 200, 500))
FIRST, LAST = 0.0, 1.0
A_TENTH: Final = 0.1


def _both(up: float) -> tuple[float, float]:
    return up, 1 - up


@dataclass(frozen=True, slots=True)
class Informed(Guest):
    """A bettor who sees a part of the measured time ahead of all others, and bets only where that pays."""

    def turn(self, view: View, turn: int) -> Sequence[tuple[int, int]]:
        chances, others = _both(view.ahead(self.ahead)), _both(view.ahead(0))
        worth = {side: chances[side] * view.play.projected(side, STAKE, others[side], view.to_come) for side in SIDES}
        best = max(SIDES, key=lambda side: worth[side])
        return [(best, STAKE)] if worth[best] > 1 else []


@dataclass(frozen=True, slots=True)
class Sniper(Guest):
    """The last to bet: he knows the probability exactly, sees the final book, and takes the best side and size."""

    def turn(self, view: View, turn: int) -> Sequence[tuple[int, int]]:
        chances = _both(view.ahead(self.ahead))
        gain, side, amount = max(
            (amount * (chances[side] * view.play.projected(side, amount, chances[side], 0) - 1), side, amount)
            for side in SIDES
            for amount in SIZES
        )
        return [(side, amount)] if gain > 0 else []


@dataclass(frozen=True, slots=True)
class Straddler(Guest):
    """A bettor on both sides at once."""

    def turn(self, view: View, turn: int) -> Sequence[tuple[int, int]]:
        return [(UP, STAKE), (DOWN, STAKE)]


@dataclass(frozen=True, slots=True)
class SelfOpposer(Guest):
    """The first bettor, who holds UP; at the end he bets `against` on DOWN, nothing if that is 0."""

    against: int = 0

    def turn(self, view: View, turn: int) -> Sequence[tuple[int, int]]:
        if turn == 0:
            return [(UP, STAKE)]
        return [(DOWN, self.against)] if self.against else []


FIRST_STRADDLE: Final = Straddler("straddle", (FIRST,))
LAST_STRADDLE: Final = Straddler("straddle last", (LAST,))
SNIPER: Final = Sniper("last, exact", (LAST,))
ROLES: Final[tuple[Guest, ...]] = (
    Informed("informed, early", (0.1,), A_TENTH),
    Informed("informed, middle", (0.5,), A_TENTH),
    Informed("informed, late", (0.9,), A_TENTH),
    Informed("knows, first", (FIRST,), 1.0),
    Informed("knows, middle", (0.5,), 1.0),
    Sniper("knows, last", (LAST,), 1.0),
    SNIPER,
    FIRST_STRADDLE,
    LAST_STRADDLE,
)
AGAINST: Final = (1 * USD, 5 * USD, 20 * USD, 100 * USD)

"""One market from its first bet to what every bet can expect, with somebody beside the crowd or without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from core.money import USD
from core.stock.vested import UP
from scripts._study.mechanisms import MECHANISMS, SIDES, Parameters, Play
from scripts._study.world import Bettor, Bettors, Draw, Regime, estimated

LAST_BLOCK: Final = 2
"""How many blocks after all others the last ones to bet are: nobody shares theirs."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is played: a kind of market, when bets are taken, the crowd, and the venue's parameters."""

    mechanism: str
    regime: Regime
    crowd: Bettors = field(default_factory=Bettors)
    parameters: Parameters = field(default_factory=Parameters)


@dataclass(slots=True)
class View:
    """What somebody who is not of the crowd has before him when it is his turn."""

    play: Play
    draw: Draw
    s: float
    to_come: float
    own: list[tuple[int, int]]
    """His bets so far: number and side."""

    def ahead(self, by: float) -> float:
        """The probability as it will be when so much more of the measured time has passed."""
        return self.draw.probability(min(1.0, self.s + by))


@dataclass(frozen=True, slots=True)
class Guest(ABC):
    """Somebody beside the crowd: moments of the betting time at which he has his turn, 1 being after everybody, and
    how much of the measured time ahead of others he sees."""

    name: str
    moments: tuple[float, ...]
    ahead: float = 0.0

    @abstractmethod
    def turn(self, view: View, turn: int) -> Sequence[tuple[int, int]]:
        """What he stakes: sides and amounts."""


@dataclass(frozen=True, slots=True)
class PlayedBet:
    """A bet of a closed market: when it came (by order, from 0 to 1), what was offered and taken, what it is paid in
    expectation and the part of that expectation in which it was right."""

    at: float
    offered: int
    taken: int
    expected: float
    right: float
    """The probability that its side wins."""


@dataclass(frozen=True, slots=True)
class Played:
    """A closed market."""

    crowd: list[PlayedBet]
    actor: list[PlayedBet]
    fees: float
    seed_gain: float
    play: Play
    chance: float
    """Of UP, as far as anybody who bet could know."""


def played(setting: Setting, draw: Draw, actor: Guest | None = None) -> Played:
    play = MECHANISMS[setting.mechanism](setting.parameters)
    crowd_bets: list[tuple[int, int, Bettor]] = []
    own: list[tuple[int, int]] = []
    offered: list[int] = []
    count = len(draw.bettors)
    mean = setting.crowd.mean_usd * USD
    turns = list(enumerate(actor.moments)) if actor is not None else []

    def act_until(u: float, left: int) -> None:
        while turns and (turns[0][1] <= u or u == 1.0):
            turn, moment = turns.pop(0)
            assert actor is not None
            view = View(play, draw, setting.regime.measured(moment), left * mean, own)
            last = moment == 1.0
            for side, amount in actor.turn(view, turn):
                block = setting.parameters.blocks + LAST_BLOCK + turn if last else _block(moment, setting)
                own.append((play.enter(side, amount, max(block, _latest(crowd_bets, setting))), side))
                offered.append(amount)

    for position, bettor in enumerate(draw.bettors):
        act_until(bettor.u, count - position)
        s = setting.regime.measured(bettor.u)
        estimate = estimated(draw.probability(s), bettor.error)
        side = _side(play, bettor, estimate, (count - position - 1) * mean)
        crowd_bets.append((play.enter(side, bettor.amount, _block(bettor.u, setting)), side, bettor))
    act_until(1.0, 0)
    play.close()
    horizon = setting.regime.until + (actor.ahead if actor is not None else 0.0)
    chance = draw.probability(min(1.0, horizon))
    crowd = [
        _outcome(play, bet, side, position / count, bettor.amount, chance)
        for position, (bet, side, bettor) in enumerate(crowd_bets)
    ]
    his = [_outcome(play, bet, side, 1.0, amount, chance) for (bet, side), amount in zip(own, offered, strict=True)]
    fees, gain = (_mean(chance, [ask(w) for w in SIDES]) / USD for ask in (play.fees, play.seed_gain))
    return Played(crowd, his, fees, gain, play, chance)


def _block(u: float, setting: Setting) -> int:
    return int(u * setting.parameters.blocks)


def _latest(crowd: Sequence[tuple[int, int, Bettor]], setting: Setting) -> int:
    return _block(crowd[-1][2].u, setting) if crowd else 0


def _side(play: Play, bettor: Bettor, estimate: float, to_come: float) -> int:
    if not bettor.by_value:
        return UP if bettor.draw < estimate else 1 - UP
    chances = (estimate, 1 - estimate)
    return max(SIDES, key=lambda side: chances[side] * play.projected(side, bettor.amount, chances[side], to_come))


def _outcome(play: Play, bet: int, side: int, at: float, amount: int, chance: float) -> PlayedBet:
    right = chance if side == UP else 1 - chance
    taken = play.staked(bet)
    expected = _mean(chance, [play.paid(bet, winner) for winner in SIDES])
    return PlayedBet(at, amount, taken, expected, right)


def _mean(chance: float, by_winner: Sequence[float]) -> float:
    return chance * by_winner[UP] + (1 - chance) * by_winner[1 - UP]

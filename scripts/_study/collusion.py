"""What bettors gain who split, come together, offer too much or bet against themselves, on many books."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from core.agent.book import Book
from core.money import USD
from core.stock.vested import UP, Terms, VestedMarket, match, offer, open_books, share
from scripts._study.mechanisms import Parameters
from scripts._study.playing import PlayedBet, played
from scripts._study.returns import SETTINGS, market
from scripts._study.roles import AGAINST, FIRST, LAST, SelfOpposer
from scripts._study.tallies import Mean
from scripts._study.world import Bettors

PARTS: Final = 10
TIMES: Final = (2, 5, 10)
MOMENTS: Final = (FIRST, LAST)


def measure(markets: int) -> dict[str, Any]:
    return {
        "split": splitting(markets),
        "over-offer": {str(times): over_offering(times) for times in TIMES},
        "against": {
            name: against(name, markets) for name in ("vested/bell", "classic/bell", "shares/half", "shares/before")
        },
    }


def splitting(markets: int) -> dict[str, float]:
    """The most that ten parts of a bet get beyond the whole: shares on a book, and accepted units of one vintage."""
    shares, units = -(2**62), -(2**62)
    for number in range(markets):
        draw = market(number, Bettors())
        book = Book.empty((Parameters().weight, Parameters().weight), Parameters().fee_bps)
        for bettor in draw.bettors:
            whole = book.quote(UP, bettor.amount * PARTS).shares
            split, parts = book, 0
            for _ in range(PARTS):
                split, got = split.staked(UP, bettor.amount)
                parts += got.shares
            shares = max(shares, parts - whole)
            book, _ = book.staked(UP if bettor.draw < 0.5 else 1 - UP, bettor.amount)
        amounts = [bettor.amount for bettor in draw.bettors]
        demanded = sum(amounts) + PARTS * amounts[0]
        taken = demanded * 2 // 3
        whole = share(0, PARTS * amounts[0], taken, demanded)
        units = max(units, sum(share(n * amounts[0], amounts[0], taken, demanded) for n in range(PARTS)) - whole)
    return {"shares": shares / USD, "units": units}


def over_offering(times: int) -> dict[str, float]:
    """Two who want the first headroom each: one offers that, the other so many times as much."""
    parameters = Parameters()
    headroom = (parameters.kappa - 1) * parameters.seed
    p = parameters
    terms = Terms(1, b"", b"", 1, 0, p.fee_bps, p.kappa, p.seed, 1, 2**47, p.side_cap)
    entered = VestedMarket(terms, open_books(parameters.seed))
    entered, _ = offer(entered, UP, headroom, 1)
    entered, before = offer(entered, UP, times * headroom, 1)
    _, vintage = match(entered)
    assert vintage.accepted is not None
    demanded, taken = vintage.offered[UP], vintage.accepted[UP]
    honest, greedy = share(0, headroom, taken, demanded), share(before, times * headroom, taken, demanded)
    return {"honest": round(honest / USD, 2), "greedy": round(greedy / USD, 2)}


def against(name: str, markets: int) -> dict[str, Any]:
    """What the first bettor gains who adds a bet on the other side at the end: by size, over all markets, and the best
    size of each market, chosen by somebody who knows the probability exactly. A stranger may gain by the same bet;
    `own` is what is left when that is taken off, and `only` how often the bet pays him but would pay no stranger."""
    setting = SETTINGS[name]
    by_size = {amount: Mean() for amount in AGAINST}
    best, own, pays, only = Mean(), Mean(), 0, 0
    for number in range(markets):
        draw = market(number, setting.crowd)
        his, strangers = [], []
        alone = _gain(played(setting, draw, SelfOpposer("holder", MOMENTS)).actor)
        for amount in AGAINST:
            bets = played(setting, draw, SelfOpposer("holder", MOMENTS, against=amount)).actor
            his.append(_gain(bets) - alone)
            strangers.append(_gain(bets[1:]))
            by_size[amount].add(his[-1] / USD)
        gained, without = max(0.0, *his), max(0.0, *strangers)
        best.add(gained / USD)
        own.add((gained - without) / USD)
        pays += gained > 0
        only += gained > 0 and without == 0
    return {
        "sizes": {str(amount // USD): each.summary() for amount, each in by_size.items()},
        "best": best.summary(),
        "own": own.summary(),
        "pays": round(pays / markets, 4),
        "only": round(only / markets, 4),
    }


def _gain(outcomes: Sequence[PlayedBet]) -> float:
    return sum(each.expected - each.taken for each in outcomes)

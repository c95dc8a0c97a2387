"""Rounding: the bounds of docs/mechanism.md, and the largest error that a search with a seed finds. The arithmetic is
that of the mirrors, which other tests hold to the contracts to the unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random

from core.agent.book import amount_for_shares, fee_of
from core.paths import REPOSITORY
from core.stock.vested import (
    DOWN,
    MAX_SIDE_CAP,
    UP,
    Position,
    S,
    Terms,
    VestedMarket,
    Vintage,
    gross_payout,
    match,
    offer,
    open_books,
    share,
)

SEED = 20_261_123
MARKETS = 400


@dataclass(slots=True)
class Largest:
    """The largest loss seen of each kind, in units."""

    part: Fraction = Fraction(0)
    residue: int = 0
    residue_of_bound: Fraction = Fraction(0)
    agent_buying: int = 0


def test_no_market_breaks_a_bound_and_the_page_shows_the_largest_error() -> None:
    random, largest = Random(SEED), Largest()
    for number in range(MARKETS):
        _market(random, number, largest)
        amount, fee_bps = random.randrange(10**6, 10**15), random.randrange(1001)
        largest.agent_buying = max(
            largest.agent_buying, amount - fee_of(amount, fee_bps) - amount_for_shares(amount, fee_bps)
        )
    assert largest.part < 1
    assert largest.residue_of_bound < 1
    assert largest.agent_buying <= 1
    page = (REPOSITORY / "docs" / "mechanism.md").read_text()
    assert f"{float(largest.part):.4f} of a unit" in page
    assert f"{largest.residue} units, {float(largest.residue_of_bound):.2f} of the bound" in page


def _market(random: Random, number: int, largest: Largest) -> None:
    """Play one market that UP wins. Its residue is what both kinds of rounding left."""
    seed = 10 ** random.randrange(0, 10)
    terms = Terms(number, b"", b"", 10**9, 0, 0, random.choice((1, 2, 30, 10**6)), seed, 1, MAX_SIDE_CAP, MAX_SIDE_CAP)
    market = VestedMarket(terms, open_books(seed))
    slack = Fraction(0)
    entered: list[tuple[Position, Vintage]] = []
    for block in range(1, random.randrange(2, 30)):
        fresh: list[Position] = []
        for _ in range(random.randrange(1, 8)):
            side = random.choice((UP, DOWN))
            amount = random.randrange(1, 20 * seed + 2)
            market, before = offer(market, side, amount, block)
            fresh.append(Position(len(entered) + len(fresh) + 1, number, b"", side, amount, block, before))
        slack += Fraction(market.books[UP].principal, S)
        market, vintage = match(market)
        assert vintage.accepted is not None
        for each in fresh:
            taken, demanded = vintage.accepted[each.outcome], vintage.offered[each.outcome]
            got = share(each.offered_before, each.offered, taken, demanded)
            largest.part = max(largest.part, abs(Fraction(each.offered * taken, demanded) - got))
        entered += [(each, vintage) for each in fresh]
    winners = [(each, vintage) for each, vintage in entered if each.outcome == UP]
    paid = seed * (S + market.books[UP].acc) // S  # the seed's leg, which entered at 0
    for each, vintage in winners:
        paid += gross_payout(market, each, vintage)
    residue = market.pool - paid
    bound = len(winners) + 1 + slack
    assert 0 <= residue < bound, (residue, bound)
    largest.residue = max(largest.residue, residue)
    largest.residue_of_bound = max(largest.residue_of_bound, Fraction(residue) / bound)

"""Quotes of stock bets: the accepted amount, the likely payout of a win, and the chance of winning needed to break
even."""

from __future__ import annotations

import heapq
from typing import Annotated

from msgspec import Meta, structs

from api.operations import Body
from api.stock.bodies.parts import Side, UsdgUnits
from api.stock.facts import FAMILIES, SIDES, ListedMarket, MarketsSnapshot
from core.money import USD
from core.stock.likely import HISTORY, PRECISION, STUDY_MARKETS, elapsed, likely, usual_volume

EXAMPLE_STAKES = (1 * USD, 10 * USD, 100 * USD)


class QuoteBasisBody(Body):
    """The basis of a quote."""

    usual_volume: Annotated[UsdgUnits, Meta(description="The usual volume of such a market, without its seed.")]
    settled_markets: Annotated[int, Meta(ge=0, description="How many settled markets of this family it is from.")]
    text: str


class QuoteBody(Body):
    """The estimate for a bet made now, with the usual later bets. Its minimum payout if right is `accepted`."""

    side: Side
    amount: UsdgUnits
    accepted: Annotated[UsdgUnits, Meta(description="The part that the market would accept in this block.")]
    likely_payout: Annotated[UsdgUnits, Meta(description="The likely payout if its side wins, after the fee.")]
    break_even_pct: Annotated[
        float | None,
        Meta(
            description="The chance of winning, in percent, that the bet needs to break even on average. 100: no "
            "profit is possible any more. Null if nothing is accepted.",
        ),
    ]


class BetQuoteBody(QuoteBody):
    """The quote of one bet, with its basis."""

    rests_on: QuoteBasisBody


class QuotesBody(Body):
    """Quotes of example stakes on either side; none while no bets are accepted."""

    bets: list[QuoteBody]
    rests_on: QuoteBasisBody


def quote(listed: ListedMarket, snapshot: MarketsSnapshot, outcome: int, amount: int) -> BetQuoteBody:
    """Quote one bet on a market that accepts bets."""
    basis = _basis(listed, snapshot)
    bet = _quoted(listed, snapshot, outcome, amount, basis)
    return BetQuoteBody(**structs.asdict(bet), rests_on=basis)


def example_quotes(listed: ListedMarket, snapshot: MarketsSnapshot, *, accepting: bool) -> QuotesBody:
    """Quote some example stakes on either side. Stakes outside the market's limits are left out."""
    terms, basis = listed.market.terms, _basis(listed, snapshot)
    stakes = [each for each in EXAMPLE_STAKES if accepting and terms.min_entry <= each <= terms.max_entry]
    bets = [_quoted(listed, snapshot, outcome, stake, basis) for stake in stakes for outcome in range(len(SIDES))]
    return QuotesBody(bets=bets, rests_on=basis)


def _quoted(
    listed: ListedMarket, snapshot: MarketsSnapshot, outcome: int, amount: int, basis: QuoteBasisBody
) -> QuoteBody:
    at = elapsed(listed.opened_at, listed.strike_time, listed.final_time, snapshot.head.timestamp)
    bet = likely(listed.market, outcome, amount, snapshot.head.moment, at, int(basis.usual_volume))
    return QuoteBody(
        side=SIDES[outcome],
        amount=str(amount),
        accepted=str(bet.accepted),
        likely_payout=str(bet.payout),
        break_even_pct=None if bet.break_even is None else bet.break_even * 100 / PRECISION,
    )


def _basis(listed: ListedMarket, snapshot: MarketsSnapshot) -> QuoteBasisBody:
    """Estimate the usual volume of a market of this family from the markets settled last."""
    ended = [
        (each.result.at, each.id, each.market)
        for each in snapshot.markets.values()
        if each.result is not None and each.family == listed.family
    ]
    last = heapq.nlargest(HISTORY, ended)
    usual = usual_volume([market.pool - 2 * market.terms.seed_per_leg for _, _, market in last])
    return QuoteBasisBody(
        usual_volume=str(usual),
        settled_markets=len(last),
        text="It is based on the time left, the bets so far, and the usual volume of such a market: the median of the "
        f"last {len(last)} settled {FAMILIES[listed.family]} markets and {STUDY_MARKETS} markets of the study in "
        "docs/fairness.md. It does not use the price: a side that is far ahead gets less than this, and a side that is "
        "behind gets more.",
    )

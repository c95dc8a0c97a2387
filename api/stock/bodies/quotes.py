"""What a bet is likely paid, and how often it must be right."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from api.operations import Body
from api.stock.bodies.parts import Side, UsdgUnits


class QuoteBasisBody(Body):
    """What a quote rests on."""

    usual_volume: Annotated[UsdgUnits, Meta(description="What such a market usually takes in all, seed not counted.")]
    settled_markets: Annotated[int, Meta(ge=0, description="How many settled markets of this family that is from.")]
    text: str


class QuoteBody(Body):
    """What a bet made now comes to, with what usually still comes. The least it is paid if right is `accepted`."""

    side: Side
    amount: UsdgUnits
    accepted: Annotated[UsdgUnits, Meta(description="What the market would accept of it in this block.")]
    likely_payout: Annotated[UsdgUnits, Meta(description="What that is likely paid if its side wins, after the fee.")]
    break_even_pct: Annotated[
        float | None,
        Meta(
            description="How likely its side must be, in percent, for the bet not to lose on average. 100: nothing "
            "more can come. Null where nothing is accepted.",
        ),
    ]


class BetQuoteBody(QuoteBody):
    """The quote of one bet, with what it rests on."""

    rests_on: QuoteBasisBody


class QuotesBody(Body):
    """Quotes of some stakes on either side; none while no bets are taken."""

    bets: list[QuoteBody]
    rests_on: QuoteBasisBody

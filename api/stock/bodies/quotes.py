"""The bodies of quotes: the likely payout of a bet, and its break-even chance of winning."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from api.operations import Body
from api.stock.bodies.parts import Side, UsdgUnits


class QuoteBasisBody(Body):
    """The basis of a quote."""

    usual_volume: Annotated[UsdgUnits, Meta(description="The usual volume of such a market, without its seed.")]
    settled_markets: Annotated[int, Meta(ge=0, description="The number of settled markets of this family it is from.")]
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

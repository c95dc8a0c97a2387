"""A quote, and the limits that it suggests."""

from __future__ import annotations

from dataclasses import replace

from api.agent.facts import ListedMarket, Venue
from api.agent.links import Links
from api.agent.outlook import Outlook
from api.agent.render.markets import ladder, odds, stats, times, token_snapshot
from api.agent.render.numbers import average_cents, pct, usd
from api.http.body import Json
from core.agent.book import Quote
from core.agent.fixed import WAD


def bought(market: ListedMarket, outcome: int, got: Quote) -> ListedMarket:
    """The market after a stake, for showing what the odds would be."""
    return replace(market, book=market.book.staked(outcome, got.amount)[0])


def least_shares(got: Quote) -> int:
    """What a bet may insist on and stand though a small one comes first: a hundredth under the quote, rounded down."""
    return got.shares * 99 // 100


def dearest_cents(got: Quote) -> int | None:
    """The same as an average price in whole cents, a hundredth over the quote and rounded up; None where 99, the most
    that a trade can name, would be less than that."""
    if not got.shares:
        return None
    cents = -(-101 * got.net // got.shares)
    return cents if cents <= 99 else None


def quote(
    market: ListedMarket,
    outcome: int,
    got: Quote,
    *,
    quote_id: str,
    expires_at: str,
    tier: str,
    ahead: Outlook,
    largest: int,
    venue: Venue,
    links: Links,
) -> Json:
    latest = venue.latest.get(market.feed)
    return {
        "marketId": market.id,
        **times(market),
        "side": market.outcomes[outcome].key,
        "sizeUsd": usd(got.amount),
        "tier": tier,
        "quoteId": quote_id,
        "expiresAt": expires_at,
        "bookVersion": market.version,
        "priceCents": average_cents(got.net, got.shares),
        "estimatedShares": usd(got.shares),
        "suggestedMinSharesOut": usd(least_shares(got)),
        "suggestedMaxPriceCents": dearest_cents(got),
        "feeBps": market.book.fee_bps,
        "feeUsd": usd(got.fee),
        "netStakeUsd": usd(got.net),
        "postTradeOdds": odds(bought(market, outcome, got)),
        "impactPct": pct(got.price_after - got.price_before, WAD),
        "largestSizeUsd": usd(largest),
        **ahead.body(),
        "ladder": ladder(market, latest),
        "tokenSnapshot": token_snapshot(market, latest, links),
        "stats": stats(market),
    }

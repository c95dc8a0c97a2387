"""A quote, with the limits it suggests."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal

from api.agent.bodies.markets import (
    BookStats,
    Ladder,
    Odds,
    TokenSnapshot,
    ladder,
    odds,
    stats,
    token_snapshot,
)
from api.agent.bodies.numbers import average_cents, pct, usd
from api.agent.bodies.parts import ChainAnswer, ProjectedBet, times
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.links import Links
from api.agent.projection import Projection
from core.agent.book import Quote
from core.agent.fixed import WAD

Tier = Literal["simple", "locked"]


class AgentQuote(ProjectedBet):
    market_id: str
    side: str
    size_usd: Decimal
    tier: Tier
    quote_id: str
    expires_at: str
    book_version: str
    price_cents: Decimal
    estimated_shares: Decimal
    suggested_min_shares_out: Decimal
    suggested_max_price_cents: int | None
    fee_bps: int
    fee_usd: Decimal
    net_stake_usd: Decimal
    post_trade_odds: Odds
    impact_pct: Decimal | None
    largest_size_usd: Decimal
    ladder: Ladder | None
    token_snapshot: TokenSnapshot | None
    stats: BookStats | None


class QuoteBody(ChainAnswer):
    quote: AgentQuote


def after_bet(market: ListedMarket, outcome: int, got: Quote) -> ListedMarket:
    """Return the market as it would be after a bet, for the odds."""
    return replace(market, book=market.book.staked(outcome, got.amount)[0])


def suggested_min_shares(got: Quote) -> int:
    """Return 1% less than the quoted shares, rounded down: a limit that tolerates a small bet in between."""
    return got.shares * 99 // 100


def suggested_max_cents(got: Quote) -> int | None:
    """Return 1% more than the quoted average price, in whole cents, rounded up; None above 99, the highest limit that a
    trade can set."""
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
    tier: Tier,
    ahead: Projection,
    largest: int,
    snapshot: MarketsSnapshot,
    links: Links,
) -> AgentQuote:
    latest = snapshot.latest.get(market.feed)
    return AgentQuote(
        **times(market),
        **ahead.fields(),
        market_id=market.id,
        side=market.outcomes[outcome].key,
        size_usd=usd(got.amount),
        tier=tier,
        quote_id=quote_id,
        expires_at=expires_at,
        book_version=market.version,
        price_cents=average_cents(got.net, got.shares),
        estimated_shares=usd(got.shares),
        suggested_min_shares_out=usd(suggested_min_shares(got)),
        suggested_max_price_cents=suggested_max_cents(got),
        fee_bps=market.book.fee_bps,
        fee_usd=usd(got.fee),
        net_stake_usd=usd(got.net),
        post_trade_odds=odds(after_bet(market, outcome, got)),
        impact_pct=pct(got.price_after - got.price_before, WAD),
        largest_size_usd=usd(largest),
        ladder=ladder(market, latest),
        token_snapshot=token_snapshot(market, latest, links),
        stats=stats(market),
    )

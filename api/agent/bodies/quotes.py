"""A quote."""

from __future__ import annotations

from typing import Literal

from api.agent.bodies.markets import BookStats, Ladder, Odds, TokenSnapshot
from api.agent.bodies.parts import AgentMarketTimes, ChainAnswer, Projected


class AgentQuote(AgentMarketTimes, Projected):
    market_id: str
    side: str
    size_usd: float
    tier: Literal["simple", "locked"]
    quote_id: str
    expires_at: str
    book_version: str
    price_cents: float
    estimated_shares: float
    suggested_min_shares_out: float
    suggested_max_price_cents: int | None
    fee_bps: int
    fee_usd: float
    net_stake_usd: float
    post_trade_odds: Odds
    impact_pct: float | None
    largest_size_usd: float
    ladder: Ladder | None
    token_snapshot: TokenSnapshot | None
    stats: BookStats | None


class QuoteBody(ChainAnswer):
    quote: AgentQuote

"""Markets, as lists, details, quotes and research show them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.agent.bodies.parts import AgentBody, AgentMarketTimes, ChainAnswer


class OutcomeRef(AgentBody):
    key: str
    label: str
    short_label: str
    lower_usd: float | None
    upper_usd: float | None
    prior_pct: float = Field(description="Where its price stood before the first bet.")
    start_at: str | None = None
    end_at: str | None = None


class Odds(AgentBody):
    yes_price_cents: float | None
    no_price_cents: float | None


class MarketLinks(AgentBody):
    app: str
    quote: str
    trade: str
    research: str


class SettlementRef(AgentBody):
    contract: str
    market_key: str


class MarketFacts(AgentMarketTimes):
    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    category: Literal["market_cap", "market_cap_range", "price_direction"]
    token_symbol: str
    chain_id: str
    deadline_label: str
    status: Literal["open", "closed", "resolved", "void"]
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: float
    virtual_liquidity_usd: float
    pot_cap_usd: float
    target_market_cap_usd: float | None
    outcomes: list[OutcomeRef] | None
    headline: str | None
    links: MarketLinks
    series: str | None
    references: dict[str, str]
    settlement: SettlementRef


class PricedOutcome(OutcomeRef):
    implied_pct: float | None = Field(description="Its price; those of all outcomes are 100 together. null once ended.")


class Ended(AgentBody):
    """How a market ended, in short: `outcome` is a key, or `void`."""

    outcome: str
    label: str
    resolved_at: str
    refunded: bool


class AgentMarketRef(MarketFacts):
    outcomes: list[PricedOutcome] | None  # type: ignore[assignment]
    volume_usd: float
    total_bets: int
    volume24h_usd: float = Field(alias="volume24hUsd")
    odds: Odds | None = Field(description="null once it has ended: then `result` stands instead.")
    result: Ended | None
    opens_at: str | None = Field(
        description="When bets begin, of a market that is `closed` because they have not begun; else null."
    )


class BookStats(AgentBody):
    total_bets: int
    total_pool_usd: float
    yes_pool_usd: float
    no_pool_usd: float
    fee_usd: float


class AgentMarketDetail(AgentMarketRef):
    stats: BookStats


class Markets(ChainAnswer):
    count: int
    markets: list[AgentMarketRef]
    next_cursor: str | None


class OneMarket(ChainAnswer):
    market: AgentMarketDetail


class Rung(AgentBody):
    key: str
    label: str
    short_label: str
    lower_usd: float | None
    upper_usd: float | None
    prior_pct: float
    start_at: str | None
    end_at: str | None
    implied_pct: float
    backed_usd: float
    is_current: bool


class Ladder(AgentBody):
    outcomes: list[Rung]
    current_bucket_key: str | None
    current_market_cap_usd: float | None
    total_backed_usd: float


class TokenSnapshot(AgentBody):
    token_symbol: str
    current_market_cap_usd: float
    current_price_usd: float | None
    target_market_cap_usd: float
    distance_to_target_pct: float
    reached_target: bool
    source: str
    source_url: str
    observed_at: str

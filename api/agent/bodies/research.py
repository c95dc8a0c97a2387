"""All that is known of a market, for whoever thinks about a bet."""

from __future__ import annotations

from typing import Literal

from api.agent.bodies.markets import AgentMarketRef, BookStats, Ladder, Odds, TokenSnapshot
from api.agent.bodies.parts import AgentBody, AgentMarketTimes, ChainAnswer, Projected


class SourcePool(AgentBody):
    name: str
    address: str
    url: str | None


class ComputedFrom(AgentBody):
    description: str
    pools: list[SourcePool]
    window_seconds: int
    step_seconds: int
    supply: str


class DecidingReading(AgentBody):
    moment: str
    read_at: str
    value: float | None
    recorded: bool
    tx_hash: str | None
    tx_url: str | None


class ResolutionRules(AgentMarketTimes):
    source: str
    source_url: str | None
    metric: str
    comparator: str | None
    threshold_label: str | None
    early_resolvable: bool
    description: str
    feed_kind: Literal["pool", "published", "rounds"]
    computed_from: ComputedFrom | None


class OddsPoint(AgentBody):
    at: str
    yes_pct: float | None
    outcome_key: str | None
    size_usd: float


class ObservationPoint(AgentBody):
    observed_at: str
    value: float | None
    label: str | None
    source_url: str | None
    tx_hash: str
    tx_url: str | None


class RelatedMarket(AgentMarketTimes):
    id: str
    slug: str
    question: str
    category: str


class ImpactRow(Projected):
    size_usd: float
    price_cents: float | None
    impact_pct: float | None


class DataFreshness(AgentBody):
    odds_at: str | None
    snapshot_at: str | None
    observations_at: str | None


class AgentResearch(AgentBody):
    market: AgentMarketRef
    resolution_rules: ResolutionRules
    odds: Odds
    stats: BookStats | None
    ladder: Ladder | None
    token_snapshot: TokenSnapshot | None
    odds_history: list[OddsPoint]
    observations: list[ObservationPoint]
    decided_by: list[DecidingReading]
    related: list[RelatedMarket]
    impact: list[ImpactRow]
    advisory: str | None
    disclaimer: str
    data_freshness: DataFreshness


class ResearchBody(ChainAnswer):
    research: AgentResearch

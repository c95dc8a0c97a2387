"""A wallet's positions, how their markets resolved, and the proof of a trade."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from api.agent.bodies.markets import MarketFacts
from api.agent.bodies.parts import AgentBody, AgentMarketTimes, ChainAnswer, Projected


class AgentPosition(AgentMarketTimes, Projected):
    market_id: str
    slug: str
    question: str
    side: str
    outcome_label: str
    shares: float
    staked_usd: float
    avg_entry_cents: float
    current_cents: float
    pnl_usd: float
    max_payout_usd: float
    payout_usd: float | None
    status: Literal["open", "resolved-won", "resolved-lost", "resolved-refunded"]
    app_url: str
    proof_url: str | None
    filled_at: str | None
    payout_tx: str | None = Field(description="The transaction that paid it out or gave it back; null until then.")
    trade_id: str


class PositionSummary(AgentBody):
    """The sums over all the wallet's positions, whatever the page shows."""

    open_count: int
    resolved_count: int
    total_staked_usd: float
    total_pnl_usd: float


class PositionsBody(ChainAnswer):
    wallet: str
    count: int
    summary: PositionSummary
    positions: list[AgentPosition]
    next_cursor: str | None = Field(description="Of the older positions; null on the last page.")


class AgentResult(AgentMarketTimes):
    market_id: str
    status: Literal["resolved", "pending"]
    resolved_outcome: str | None
    resolved_outcome_label: str | None
    resolved_at: str | None
    source: str
    source_url: str | None
    observed_market_cap_usd: float | None
    start_reading_usd: float | None = Field(description="Of an up or down market: what its end was compared with.")
    end_reading_usd: float | None = Field(description="The reading that decided.")
    payout_per_share_usd: float | None
    pool_usd: float
    winning_shares: float
    proof_url: str | None
    refunded: bool
    tx_hash: str | None


class ResultBody(ChainAnswer):
    result: AgentResult


class ProofMarket(MarketFacts):
    """A market as a proof shows it."""


class ProofPosition(AgentBody):
    user_id: str
    wallet_address: str
    side: str
    shares: float
    price_cents: float
    size_usd: float
    fee_usd: float


class ProofSettlement(AgentBody):
    tx_hash: str
    explorer_url: str
    status: Literal["submitted", "confirmed", "final"]
    network: Literal["base"]
    settled_at: str | None
    contract: str
    stake_id: str
    block_number: int


class Attribution(AgentBody):
    source: str | None
    mention_id: str | None
    ref: str | None
    builder_code: str | None


class TradeProofBody(ChainAnswer):
    trade_id: str
    market: ProofMarket
    position: ProofPosition
    settlement: ProofSettlement
    attribution: Attribution

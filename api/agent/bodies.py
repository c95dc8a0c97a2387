"""Answers of the agent surface, as the documentation describes them. Bodies may carry more keys than these.

Nothing makes one of these: `render.py` and its neighbours build each answer as a dictionary. Tests hold the two
together: they read answers by these models (`tests/integration/test_agent_reads.py`, `test_agent_answers.py`), and hold
what generated calls are answered to the schema that is made of them (`test_agent_fuzz.py`). Decision 14 says why.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from api.agent.errors import CATALOGUE, RESERVED
from api.agent.outlook import CautionCode
from api.http.operation import DocumentedAnswer


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class ErrorBody(_Body):
    """The body of every refusal but the 402. 400 adds `issues`; a trade that may have been sent adds `txHash`."""

    error: Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(CATALOGUE.keys() - RESERVED)})]
    message: str
    hint: str
    docs_url: str
    retriable: bool
    request_id: str


def refusal(description: str) -> DocumentedAnswer:
    """A refusal as the documentation lists it under its status."""
    return DocumentedAnswer(description, ErrorBody)


BAD = refusal("`invalid_request`, with `issues`")
NO_WALLET = refusal("`invalid_wallet`")
UNREADABLE = refusal("`internal_error`: retry shortly.")
RATE = DocumentedAnswer("`rate_limited`", ErrorBody, {"Retry-After": "Seconds until there is room again."})


class Meta(_Body):
    name: str
    version: Literal["service-agent-api-v1"]
    generated_at: str
    docs_url: str


class Freshness(_Body):
    """The block a body was made from."""

    block: int = Field(ge=0)
    block_at: str
    lag_blocks: int = Field(ge=0, description="Blocks the index is behind the chain.")


class ChainMeta(Meta):
    freshness: Freshness


class _Times(_Body):
    """A market's times: when stakes end (`deadlineAt`, to the second), what is measured when, and when it is
    settled."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


class BetWarning(_Body):
    code: CautionCode
    message: str


class _Projected(_Body):
    """What a stake would be paid if its side won with the book as it then stands, and what is unwise about it."""

    projected_payout_usd: float
    projected_payout_per_share_usd: float | None
    warnings: list[BetWarning]


class _Answer(_Body):
    meta: Meta


class _ChainAnswer(_Body):
    """An answer made of what the chain says."""

    meta: ChainMeta


class OutcomeRef(_Body):
    key: str
    label: str
    short_label: str
    lower_usd: float | None
    upper_usd: float | None
    prior_pct: float = Field(description="Where its price stood before the first bet.")
    start_at: str | None = None
    end_at: str | None = None


class Odds(_Body):
    yes_price_cents: float | None
    no_price_cents: float | None


class MarketLinks(_Body):
    app: str
    quote: str
    trade: str
    research: str


class SettlementRef(_Body):
    contract: str
    market_key: str


class _MarketFacts(_Times):
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


class Ended(_Body):
    """How a market ended, in short: `outcome` is a key, or `void`."""

    outcome: str
    label: str
    resolved_at: str
    refunded: bool


class AgentMarketRef(_MarketFacts):
    outcomes: list[PricedOutcome] | None  # type: ignore[assignment]
    volume_usd: float
    total_bets: int
    volume24h_usd: float = Field(alias="volume24hUsd")
    odds: Odds | None = Field(description="null once it has ended: then `result` stands instead.")
    result: Ended | None
    opens_at: str | None = Field(
        description="When bets begin, of a market that is `closed` because they have not begun; else null."
    )


class BookStats(_Body):
    total_bets: int
    total_pool_usd: float
    yes_pool_usd: float
    no_pool_usd: float
    fee_usd: float


class AgentMarketDetail(AgentMarketRef):
    stats: BookStats


class Markets(_ChainAnswer):
    count: int
    markets: list[AgentMarketRef]
    next_cursor: str | None


class OneMarket(_ChainAnswer):
    market: AgentMarketDetail


class Rung(_Body):
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


class Ladder(_Body):
    outcomes: list[Rung]
    current_bucket_key: str | None
    current_market_cap_usd: float | None
    total_backed_usd: float


class TokenSnapshot(_Body):
    token_symbol: str
    current_market_cap_usd: float
    current_price_usd: float | None
    target_market_cap_usd: float
    distance_to_target_pct: float
    reached_target: bool
    source: str
    source_url: str
    observed_at: str


class AgentQuote(_Times, _Projected):
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


class QuoteBody(_ChainAnswer):
    quote: AgentQuote


class SourcePool(_Body):
    name: str
    address: str
    url: str | None


class ComputedFrom(_Body):
    description: str
    pools: list[SourcePool]
    window_seconds: int
    step_seconds: int
    max_quiet_seconds: int
    supply: str


class DecidingReading(_Body):
    moment: str
    read_at: str
    value: float | None
    recorded: bool
    tx_hash: str | None
    tx_url: str | None


class ResolutionRules(_Times):
    source: str
    source_url: str | None
    metric: str
    comparator: str | None
    threshold_label: str | None
    early_resolvable: bool
    description: str
    feed_kind: Literal["pool", "published", "rounds"]
    computed_from: ComputedFrom | None


class OddsPoint(_Body):
    at: str
    yes_pct: float | None
    outcome_key: str | None
    size_usd: float


class ObservationPoint(_Body):
    observed_at: str
    value: float | None
    label: str | None
    source_url: str | None
    tx_hash: str
    tx_url: str | None


class RelatedMarket(_Times):
    id: str
    slug: str
    question: str
    category: str


class ImpactRow(_Projected):
    size_usd: float
    price_cents: float | None
    impact_pct: float | None


class DataFreshness(_Body):
    odds_at: str | None
    snapshot_at: str | None
    observations_at: str | None


class AgentResearch(_Body):
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


class ResearchBody(_ChainAnswer):
    research: AgentResearch


class ReceiptPosition(_Body):
    shares: float
    avg_price_cents: float


class AgentTradeReceipt(_Times, _Projected):
    trade_id: str
    market_id: str
    side: str
    size_usd: float
    simulated: bool
    tx_hash: str | None
    explorer_url: str | None
    intent_hash: str
    builder_code: str | None
    position: ReceiptPosition
    proof_url: str | None
    recorded_at: str


class EscapeKit(_Body):
    """The call that settles a bound payment, which anybody may send to the contract until `expiresAt`."""

    to: str
    data: str
    chain_id: int
    expires_at: int = Field(description="Unix seconds.")


class TradeBody(_Answer):
    """The answer to a paid trade: `extensions["offer-receipt"]` holds the signed receipt; `escapeKit` is the call
    anybody may send, in bound mode."""

    replay: bool
    receipt: AgentTradeReceipt
    extensions: dict[str, Any] | None = None
    escape_kit: EscapeKit | None = None


class TokenDomain(_Body):
    name: str
    version: str
    intent_nonce: str
    intent_valid_after: str
    receive_nonce: str
    receive_primary_type: str


class PaymentOffer(_Body):
    scheme: Literal["exact"]
    network: Literal["base"]
    max_amount_required: str
    resource: str
    description: str
    mime_type: str
    pay_to: str
    max_timeout_seconds: int
    asset: str
    extra: TokenDomain


class Challenge(BaseModel):
    """The body of a 402, as x402 v1 has it. `error` says why the payment before was not accepted; `extensions` holds
    the signed offer."""

    x402Version: Literal[1]
    error: str | None
    accepts: list[PaymentOffer]
    extensions: dict[str, Any] | None = None


class AgentPosition(_Times, _Projected):
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


class PositionSummary(_Body):
    """The sums over all the wallet's positions, whatever the page shows."""

    open_count: int
    resolved_count: int
    total_staked_usd: float
    total_pnl_usd: float


class PositionsBody(_ChainAnswer):
    wallet: str
    count: int
    summary: PositionSummary
    positions: list[AgentPosition]
    next_cursor: str | None = Field(description="Of the older positions; null on the last page.")


class AgentResult(_Times):
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


class ResultBody(_ChainAnswer):
    result: AgentResult


class ProofMarket(_MarketFacts):
    """A market as a proof shows it."""


class ProofPosition(_Body):
    user_id: str
    wallet_address: str
    side: str
    shares: float
    price_cents: float
    size_usd: float
    fee_usd: float


class ProofSettlement(_Body):
    tx_hash: str
    explorer_url: str
    status: Literal["submitted", "confirmed", "final"]
    network: Literal["base"]
    settled_at: str | None
    contract: str
    stake_id: str
    block_number: int


class Attribution(_Body):
    source: str | None
    mention_id: str | None
    ref: str | None
    builder_code: str | None


class TradeProofBody(_ChainAnswer):
    trade_id: str
    market: ProofMarket
    position: ProofPosition
    settlement: ProofSettlement
    attribution: Attribution


class Funding(_Body):
    network: Literal["base"]
    usdc_address: str
    docs_url: str


class AgentReadiness(_Body):
    wallet: str
    usdc_balance_usd: float | None
    can_bet_min: bool | None
    min_bet_usd: float
    simple_tier_max_usd: float
    gas_needed: Literal[False]
    reason: str
    funding: Funding
    hint: str | None


class ReadinessBody(_Answer):
    readiness: AgentReadiness


class MarketCounts(_Body):
    open: int
    resolved: int


class AgentStats(_Body):
    markets: MarketCounts
    total_bets: int
    total_volume_usd: float
    total_paid_out_usd: float
    median_payout_delay_sec: float | None
    auto_payout_rate: Annotated[
        float | None,
        Field(
            description="Of the winning stakes of a week's markets, the newest, the share that the service itself paid"
            " within 10 minutes of resolution. Stakes given back are not counted."
        ),
    ]
    proof_samples: list[str]
    custody: str
    as_of: str


class StatsBody(_ChainAnswer):
    stats: AgentStats


class AgentHealth(_Body):
    """The state of the agent markets: `reason` says why `ok` is false; `attester` is the address that signs offers,
    receipts and callbacks."""

    ok: bool
    markets_open: int
    last_resolve_tick_at: str | None
    last_snapshot_tick_at: str | None
    last_canary_at: str | None
    payout_queue_depth: int | None
    version: str
    reason: str | None
    attester: str | None


class HealthBody(_Answer):
    health: AgentHealth


class GuideStep(_Body):
    step: int
    title: str
    method: Literal["GET", "POST"]
    url: str
    example_request: str | None
    example_response: str
    note: str


class GettingStarted(_Answer):
    intro: str
    auto_payout_note: str
    steps: list[GuideStep]

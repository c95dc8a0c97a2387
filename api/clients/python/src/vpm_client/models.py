"""The answers of the API. Where values are listed, more may come.

Made by `python -m tests.support.client_models`; not to be edited.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """What every answer is made of."""


class AgentEvent(Body, frozen=True, kw_only=True):
    """One event of a wallet. `payload` has the keys documented for its type; a correction has `undone` and `corrects`
    in it."""

    event_id: str
    seq: int | None
    # bet.settlement_submitted, bet.placed, market.resolved, position.won, position.lost, payout.submitted,
    # payout.paid, payout.failed, webhook.verify, webhook.delivery_failed, test
    type: str
    created_at: str
    wallet: str | None
    market_id: str | None
    trade_id: str | None
    payload: dict[str, Any]
    proof_url: str | None


class AgentHealth(Body, frozen=True, kw_only=True):
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


class AgentMarketDetail(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    # market_cap, market_cap_range, price_direction
    category: str
    token_symbol: str
    chain_id: str
    deadline_label: str
    # open, closed, resolved, void
    status: str
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: Decimal
    virtual_liquidity_usd: Decimal
    pot_cap_usd: Decimal
    target_market_cap_usd: Decimal | None
    outcomes: list[PricedOutcome] | None
    headline: str | None
    links: MarketLinks
    series: str | None
    references: dict[str, str]
    settlement: SettlementRef
    volume_usd: Decimal
    total_bets: int
    volume24h_usd: Decimal
    odds: Odds | None
    result: Ended | None
    stats: BookStats


class AgentMarketRef(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    # market_cap, market_cap_range, price_direction
    category: str
    token_symbol: str
    chain_id: str
    deadline_label: str
    # open, closed, resolved, void
    status: str
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: Decimal
    virtual_liquidity_usd: Decimal
    pot_cap_usd: Decimal
    target_market_cap_usd: Decimal | None
    outcomes: list[PricedOutcome] | None
    headline: str | None
    links: MarketLinks
    series: str | None
    references: dict[str, str]
    settlement: SettlementRef
    volume_usd: Decimal
    total_bets: int
    volume24h_usd: Decimal
    odds: Odds | None
    result: Ended | None


class AgentPosition(Body, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    market_id: str
    slug: str
    question: str
    side: str
    outcome_label: str
    shares: Decimal
    staked_usd: Decimal
    avg_entry_cents: Decimal
    current_cents: Decimal
    pnl_usd: Decimal
    max_payout_usd: Decimal
    payout_usd: Decimal | None
    # open, resolved-won, resolved-lost, resolved-refunded
    status: str
    app_url: str
    proof_url: str | None
    filled_at: str | None
    trade_id: str


class AgentQuote(Body, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    market_id: str
    side: str
    size_usd: Decimal
    # simple, locked
    tier: str
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


class AgentReadiness(Body, frozen=True, kw_only=True):
    wallet: str
    usdc_balance_usd: Decimal | None
    can_bet_min: bool | None
    min_bet_usd: Decimal
    simple_tier_max_usd: Decimal
    gas_needed: bool
    reason: str
    funding: Funding
    hint: str | None


class AgentResearch(Body, frozen=True, kw_only=True):
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


class AgentResult(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    market_id: str
    # resolved, pending
    status: str
    resolved_outcome: str | None
    resolved_outcome_label: str | None
    resolved_at: str | None
    source: str
    source_url: str | None
    observed_market_cap_usd: Decimal | None
    start_reading_usd: Decimal | None
    end_reading_usd: Decimal | None
    payout_per_share_usd: Decimal | None
    pool_usd: Decimal
    winning_shares: Decimal
    proof_url: str | None
    refunded: bool
    tx_hash: str | None


class AgentStats(Body, frozen=True, kw_only=True):
    markets: MarketCounts
    total_bets: int
    total_volume_usd: Decimal
    total_paid_out_usd: Decimal
    median_payout_delay_sec: Decimal | None
    auto_payout_rate: Decimal | None
    proof_samples: list[str]
    custody: str
    as_of: str


class AgentTradeReceipt(Body, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]
    trade_id: str
    market_id: str
    side: str
    size_usd: Decimal
    simulated: bool
    tx_hash: str | None
    explorer_url: str | None
    intent_hash: str
    builder_code: str | None
    position: ReceiptPosition
    proof_url: str | None
    recorded_at: str


class AgentWebhookRegistration(Body, frozen=True, kw_only=True):
    """A registered webhook. `ref` names it in public events; its id, which allows to delete it, never is in one."""

    id: str
    wallet: str
    url: str
    # pending_verification, active, disabled
    status: str
    secret: str | None
    created_at: str
    ref: str
    next_seq: int
    failed_attempts: int
    failing_since: str | None
    last_error: str | None


class Attribution(Body, frozen=True, kw_only=True):
    source: str | None
    mention_id: str | None
    ref: str | None
    builder_code: str | None


class BetWarning(Body, frozen=True, kw_only=True):
    # pays_less_than_stake, first_on_its_side, wallet_underfunded, closes_soon
    code: str
    message: str


class BookStats(Body, frozen=True, kw_only=True):
    total_bets: int
    total_pool_usd: Decimal
    yes_pool_usd: Decimal
    no_pool_usd: Decimal
    fee_usd: Decimal


class ChainMeta(Body, frozen=True, kw_only=True):
    name: str
    version: str
    generated_at: str
    docs_url: str
    freshness: Freshness


class Challenge(Body, frozen=True, kw_only=True):
    """The body of a 402, as x402 v1 has it. `error` says why the payment before was not accepted; `extensions` holds
    the signed offer."""

    x402_version: int
    error: str | None
    accepts: list[PaymentOffer]
    extensions: dict[str, Any] | None = None


class ComputedFrom(Body, frozen=True, kw_only=True):
    description: str
    pools: list[SourcePool]
    window_seconds: int
    step_seconds: int
    max_quiet_seconds: int
    supply: str


class DataFreshness(Body, frozen=True, kw_only=True):
    odds_at: str | None
    snapshot_at: str | None
    observations_at: str | None


class DecidingReading(Body, frozen=True, kw_only=True):
    moment: str
    read_at: str
    value: Decimal | None
    recorded: bool
    tx_hash: str | None
    tx_url: str | None


class DeletedBody(Body, frozen=True, kw_only=True):
    meta: Meta
    id: str
    deleted: bool


class DiscoverBody(Body, frozen=True, kw_only=True):
    """The markets a text is about. `reason` is there only when `silent` is true: `scam`, `greeting`, `settled_fact` or
    `no_claim`."""

    meta: ChainMeta
    query: str | None
    silent: bool
    # scam, greeting, settled_fact, no_claim
    reason: str | None = None
    count: int
    matches: list[DiscoverMatch]


class DiscoverMatch(Body, frozen=True, kw_only=True):
    """A market that was found: `reason` says why it is here: `cashtag $SYM`, `shares word, word`, or `browse`."""

    market: AgentMarketRef
    # exact, related
    match_kind: str
    score: Decimal
    matched_cashtags: list[str]
    matched_terms: list[str]
    reason: str


class Ended(Body, frozen=True, kw_only=True):
    """How a market ended, in short: `outcome` is a key, or `void`."""

    outcome: str
    label: str
    resolved_at: str
    refunded: bool


class EscapeKit(Body, frozen=True, kw_only=True):
    """The call that settles a bound payment, which anybody may send to the contract until `expiresAt`."""

    to: str
    data: str
    chain_id: int
    expires_at: int


class Freshness(Body, frozen=True, kw_only=True):
    """The block a body was made from."""

    block: int
    block_at: str
    lag_blocks: int


class Funding(Body, frozen=True, kw_only=True):
    network: str
    usdc_address: str
    docs_url: str


class GettingStarted(Body, frozen=True, kw_only=True):
    meta: Meta
    intro: str
    auto_payout_note: str
    steps: list[GuideStep]


class GuideStep(Body, frozen=True, kw_only=True):
    step: int
    title: str
    # GET, POST
    method: str
    url: str
    example_request: str | None
    example_response: str
    note: str


class HealthBody(Body, frozen=True, kw_only=True):
    meta: Meta
    health: AgentHealth


class ImpactRow(Body, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]
    size_usd: Decimal
    price_cents: Decimal | None
    impact_pct: Decimal | None


class Ladder(Body, frozen=True, kw_only=True):
    outcomes: list[Rung]
    current_bucket_key: str | None
    current_market_cap_usd: Decimal | None
    total_backed_usd: Decimal


class MarketCounts(Body, frozen=True, kw_only=True):
    open: int
    resolved: int


class MarketLinks(Body, frozen=True, kw_only=True):
    app: str
    quote: str
    trade: str
    research: str


class Markets(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    count: int
    markets: list[AgentMarketRef]
    next_cursor: str | None


class Meta(Body, frozen=True, kw_only=True):
    name: str
    version: str
    generated_at: str
    docs_url: str


class ObservationPoint(Body, frozen=True, kw_only=True):
    observed_at: str
    value: Decimal | None
    label: str | None
    source_url: str | None
    tx_hash: str
    tx_url: str | None


class Odds(Body, frozen=True, kw_only=True):
    yes_price_cents: Decimal | None
    no_price_cents: Decimal | None


class OddsPoint(Body, frozen=True, kw_only=True):
    at: str
    yes_pct: Decimal | None
    outcome_key: str | None
    size_usd: Decimal


class OneMarket(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    market: AgentMarketDetail


class OutcomeRef(Body, frozen=True, kw_only=True):
    key: str
    label: str
    short_label: str
    lower_usd: Decimal | None
    upper_usd: Decimal | None
    prior_pct: Decimal
    start_at: str | None = None
    end_at: str | None = None


class PaymentOffer(Body, frozen=True, kw_only=True):
    scheme: str
    network: str
    max_amount_required: str
    resource: str
    description: str
    mime_type: str
    pay_to: str
    max_timeout_seconds: int
    asset: str
    extra: TokenDomain


class PositionSummary(Body, frozen=True, kw_only=True):
    """The sums over all the wallet's positions, whatever the page shows."""

    open_count: int
    resolved_count: int
    total_staked_usd: Decimal
    total_pnl_usd: Decimal


class PositionsBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    wallet: str
    count: int
    summary: PositionSummary
    positions: list[AgentPosition]
    next_cursor: str | None


class PricedOutcome(Body, frozen=True, kw_only=True):
    key: str
    label: str
    short_label: str
    lower_usd: Decimal | None
    upper_usd: Decimal | None
    prior_pct: Decimal
    start_at: str | None = None
    end_at: str | None = None
    implied_pct: Decimal | None


class ProofMarket(Body, frozen=True, kw_only=True):
    """A market as a proof shows it."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    # market_cap, market_cap_range, price_direction
    category: str
    token_symbol: str
    chain_id: str
    deadline_label: str
    # open, closed, resolved, void
    status: str
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: Decimal
    virtual_liquidity_usd: Decimal
    pot_cap_usd: Decimal
    target_market_cap_usd: Decimal | None
    outcomes: list[OutcomeRef] | None
    headline: str | None
    links: MarketLinks
    series: str | None
    references: dict[str, str]
    settlement: SettlementRef


class ProofPosition(Body, frozen=True, kw_only=True):
    user_id: str
    wallet_address: str
    side: str
    shares: Decimal
    price_cents: Decimal
    size_usd: Decimal
    fee_usd: Decimal


class ProofSettlement(Body, frozen=True, kw_only=True):
    tx_hash: str
    explorer_url: str
    # submitted, confirmed, final
    status: str
    network: str
    settled_at: str | None
    contract: str
    stake_id: str
    block_number: int


class QuoteBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    quote: AgentQuote


class ReadinessBody(Body, frozen=True, kw_only=True):
    meta: Meta
    readiness: AgentReadiness


class ReceiptPosition(Body, frozen=True, kw_only=True):
    shares: Decimal
    avg_price_cents: Decimal


class RelatedMarket(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    id: str
    slug: str
    question: str
    category: str


class ReplayBody(Body, frozen=True, kw_only=True):
    """A page of a wallet's events. `lastSeq`: the wallet's newest event, null before the first."""

    meta: Meta
    events: list[AgentEvent]
    next_seq: int | None
    last_seq: int | None


class ResearchBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    research: AgentResearch


class ResolutionRules(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    source: str
    source_url: str | None
    metric: str
    comparator: str | None
    threshold_label: str | None
    early_resolvable: bool
    description: str
    # pool, published, rounds
    feed_kind: str
    computed_from: ComputedFrom | None


class ResolvedBody(Body, frozen=True, kw_only=True):
    meta: Meta
    events: list[AgentEvent]
    next_since: str | None


class ResultBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    result: AgentResult


class Rung(Body, frozen=True, kw_only=True):
    key: str
    label: str
    short_label: str
    lower_usd: Decimal | None
    upper_usd: Decimal | None
    prior_pct: Decimal
    start_at: str | None
    end_at: str | None
    implied_pct: Decimal
    backed_usd: Decimal
    is_current: bool


class SentimentActivity(Body, frozen=True, kw_only=True):
    total_bets: int
    total_pool_usd: Decimal


class SentimentBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    token: str
    intel: SentimentIntel


class SentimentIntel(Body, frozen=True, kw_only=True):
    token: str
    has_signal: bool
    market_count: int
    sentiment: SentimentScore
    suggested_bet: SuggestedBet | None
    quality: SentimentQuality
    activity: SentimentActivity
    top_market: SentimentMarket | None
    markets: list[SentimentMarket]
    summary: str
    as_of: str


class SentimentMarket(Body, frozen=True, kw_only=True):
    """A market that the reading counts: `pool` is USD less fees; `bullishPct` is null for a market without a direction,
    `yesPriceCents` for a range."""

    market_id: str
    slug: str
    short_title: str
    # market_cap, market_cap_range, price_direction
    kind: str
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str
    yes_price_cents: Decimal | None
    pool: Decimal
    total_bets: int
    directional: bool
    bullish_pct: Decimal | None
    app_url: str


class SentimentQuality(Body, frozen=True, kw_only=True):
    distinct_bettors: int
    top_wallet_pct: Decimal
    # broad, mixed, concentrated, none
    label: str


class SentimentScore(Body, frozen=True, kw_only=True):
    score: Decimal
    lean: Decimal
    # strongly_bullish, bullish, neutral, bearish, strongly_bearish
    label: str
    # pool_weighted, equal_weight, none
    basis: str
    # high, medium, low, none
    confidence: str
    directional_market_count: int
    directional_pool_usd: Decimal
    directional_bettors: int


class SettlementRef(Body, frozen=True, kw_only=True):
    contract: str
    market_key: str


class SourcePool(Body, frozen=True, kw_only=True):
    name: str
    address: str
    url: str | None


class StatsBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    stats: AgentStats


class SuggestedBet(Body, frozen=True, kw_only=True):
    market_id: str
    slug: str
    short_title: str
    side: str
    # UP, DOWN, YES, NO
    side_label: str
    implied_cents: int
    bet_url: str


class TestBody(Body, frozen=True, kw_only=True):
    meta: Meta
    event: AgentEvent


class TokenDomain(Body, frozen=True, kw_only=True):
    name: str
    version: str
    intent_nonce: str
    intent_valid_after: str
    receive_nonce: str
    receive_primary_type: str


class TokenSnapshot(Body, frozen=True, kw_only=True):
    token_symbol: str
    current_market_cap_usd: Decimal
    current_price_usd: Decimal | None
    target_market_cap_usd: Decimal
    distance_to_target_pct: Decimal
    reached_target: bool
    source: str
    source_url: str
    observed_at: str


class TradeBody(Body, frozen=True, kw_only=True):
    """The answer to a paid trade: `extensions["offer-receipt"]` holds the signed receipt; `escapeKit` is the call
    anybody may send, in bound mode."""

    meta: Meta
    replay: bool
    receipt: AgentTradeReceipt
    extensions: dict[str, Any] | None = None
    escape_kit: EscapeKit | None = None


class TradeProofBody(Body, frozen=True, kw_only=True):
    meta: ChainMeta
    trade_id: str
    market: ProofMarket
    position: ProofPosition
    settlement: ProofSettlement
    attribution: Attribution


class WebhookBody(Body, frozen=True, kw_only=True):
    meta: Meta
    webhook: AgentWebhookRegistration

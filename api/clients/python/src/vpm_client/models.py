"""The API's response bodies. Where values are listed, more may come.

Made by `python -m tests.support.client_models`; not to be edited.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """The base of all bodies."""


class AgentAttribution(Body, frozen=True, kw_only=True):
    source: str | None
    mention_id: str | None
    ref: str | None
    builder_code: str | None


class AgentBetWarning(Body, frozen=True, kw_only=True):
    """A reason to reconsider a bet."""

    code: str  # closes_soon, first_on_its_side, pays_less_than_stake, wallet_underfunded
    message: str


class AgentBookStats(Body, frozen=True, kw_only=True):
    total_bets: int
    total_pool_usd: Decimal
    yes_pool_usd: Decimal
    no_pool_usd: Decimal
    fee_usd: Decimal


class AgentChallenge(Body, frozen=True, kw_only=True):
    """The body of a 402, as x402 v1 defines it. `error`: why the previous payment was not accepted. `extensions`: the
    signed offer."""

    x402_version: int
    error: str | None
    accepts: list[AgentPaymentOffer]
    extensions: dict[str, Any] | None = None


class AgentComputedFrom(Body, frozen=True, kw_only=True):
    description: str
    pools: list[AgentSourcePool]
    window_seconds: int
    step_seconds: int
    supply: str


class AgentDataFreshness(Body, frozen=True, kw_only=True):
    odds_at: str | None
    snapshot_at: str | None
    observations_at: str | None


class AgentDecidingReading(Body, frozen=True, kw_only=True):
    """A reading that decides a market, with the transaction that recorded it, if any."""

    moment: str
    read_at: str
    value: Decimal | None
    recorded: bool
    tx_hash: str | None
    tx_url: str | None


class AgentDeletedAnswer(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    id: str
    deleted: bool


class AgentDiscoverAnswer(Body, frozen=True, kw_only=True):
    """The markets that match a text. `reason` is present only if `silent` is true: `scam`, `greeting`, `settled_fact`
    or `no_claim`."""

    meta: AgentChainMeta
    query: str | None
    silent: bool
    reason: str | None = None  # greeting, no_claim, scam, settled_fact
    count: int
    matches: list[AgentDiscoverMatch]


class AgentDiscoverMatch(Body, frozen=True, kw_only=True):
    """A market that was found. `reason` is `cashtag $SYM`, `shares word, word` or `browse`."""

    market: AgentMarketRef
    match_kind: str  # exact, related
    score: Decimal
    matched_cashtags: list[str]
    matched_terms: list[str]
    reason: str


class AgentEnded(Body, frozen=True, kw_only=True):
    """A market's result in short. `outcome`: the winning outcome's key, or `void`."""

    outcome: str
    label: str
    resolved_at: str
    refunded: bool


class AgentEscapeKit(Body, frozen=True, kw_only=True):
    """The call that settles a bound payment, which anyone may send to the contract until `expiresAt`."""

    to: str
    data: str
    chain_id: int
    expires_at: int


class AgentEvent(Body, frozen=True, kw_only=True):
    """A wallet's event. `payload` has the keys documented for its type and, in a correction, also `undone` and
    `corrects`."""

    event_id: str
    seq: int
    # bet.placed, bet.settlement_submitted, market.resolved, payout.failed, payout.paid, payout.submitted,
    # position.lost, position.won, test, webhook.delivery_failed, webhook.verify
    type: str
    created_at: str
    wallet: str | None
    market_id: str | None
    trade_id: str | None
    payload: dict[str, Any]
    proof_url: str | None


class AgentFreshness(Body, frozen=True, kw_only=True):
    """The block that a response's data is from."""

    block: int
    block_at: str
    lag_blocks: int


class AgentFunding(Body, frozen=True, kw_only=True):
    network: str
    usdc_address: str
    docs_url: str


class AgentGettingStarted(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    intro: str
    auto_payout_note: str
    steps: list[AgentGuideStep]


class AgentGuideStep(Body, frozen=True, kw_only=True):
    step: int
    title: str
    method: str  # GET, POST
    url: str
    example_request: str | None
    example_response: str
    note: str


class AgentHealth(Body, frozen=True, kw_only=True):
    """The state of the agent markets. `reason`: why `ok` is false. `attester`: the address that signs offers, receipts
    and callbacks."""

    ok: bool
    markets_open: int
    last_resolve_tick_at: str | None
    last_snapshot_tick_at: str | None
    last_canary_at: str | None
    payout_queue_depth: int | None
    version: str
    reason: str | None
    attester: str | None


class AgentHealthAnswer(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    health: AgentHealth


class AgentImpactRow(Body, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[AgentBetWarning]
    size_usd: Decimal
    price_cents: Decimal | None
    impact_pct: Decimal | None


class AgentLadder(Body, frozen=True, kw_only=True):
    outcomes: list[AgentRung]
    current_bucket_key: str | None
    current_market_cap_usd: Decimal | None
    total_backed_usd: Decimal


class AgentMarketCounts(Body, frozen=True, kw_only=True):
    open: int
    resolved: int


class AgentMarketLinks(Body, frozen=True, kw_only=True):
    app: str
    quote: str
    trade: str
    research: str


class AgentMarketTimes(Body, frozen=True, kw_only=True):
    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


class AgentMarkets(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    count: int
    markets: list[AgentMarketRef]
    next_cursor: str | None


class AgentMeta(Body, frozen=True, kw_only=True):
    name: str
    version: str
    generated_at: str
    docs_url: str


class AgentObservationPoint(Body, frozen=True, kw_only=True):
    observed_at: str
    value: Decimal | None
    label: str | None
    source_url: str | None
    tx_hash: str
    tx_url: str | None


class AgentOdds(Body, frozen=True, kw_only=True):
    yes_price_cents: Decimal | None
    no_price_cents: Decimal | None


class AgentOddsPoint(Body, frozen=True, kw_only=True):
    """The price after a bet. `yesPct`: the first outcome's percentage, on two-sided markets."""

    at: str
    yes_pct: Decimal | None
    outcome_key: str | None
    size_usd: Decimal


class AgentOneMarket(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    market: AgentMarketDetail


class AgentOutcomeRef(Body, frozen=True, kw_only=True):
    key: str
    label: str
    short_label: str
    lower_usd: Decimal | None
    upper_usd: Decimal | None
    prior_pct: Decimal
    start_at: str | None = None
    end_at: str | None = None


class AgentPaymentOffer(Body, frozen=True, kw_only=True):
    scheme: str
    network: str
    max_amount_required: str
    resource: str
    description: str
    mime_type: str
    pay_to: str
    max_timeout_seconds: int
    asset: str
    extra: AgentTokenDomain


class AgentPositionSummary(Body, frozen=True, kw_only=True):
    """The totals of all the wallet's positions, including those on other pages."""

    open_count: int
    resolved_count: int
    total_staked_usd: Decimal
    total_pnl_usd: Decimal


class AgentPositionsAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    wallet: str
    count: int
    summary: AgentPositionSummary
    positions: list[AgentPosition]
    next_cursor: str | None


class AgentProofPosition(Body, frozen=True, kw_only=True):
    user_id: str
    wallet_address: str
    side: str
    shares: Decimal
    price_cents: Decimal
    size_usd: Decimal
    fee_usd: Decimal


class AgentProofSettlement(Body, frozen=True, kw_only=True):
    tx_hash: str
    explorer_url: str
    status: str  # confirmed, final, submitted
    network: str
    settled_at: str | None
    contract: str
    stake_id: str
    block_number: int


class AgentQuoteAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    quote: AgentQuote


class AgentReadiness(Body, frozen=True, kw_only=True):
    wallet: str
    usdc_balance_usd: Decimal | None
    can_bet_min: bool | None
    min_bet_usd: Decimal
    simple_tier_max_usd: Decimal
    gas_needed: bool
    reason: str
    funding: AgentFunding
    hint: str | None


class AgentReadinessAnswer(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    readiness: AgentReadiness


class AgentReceiptPosition(Body, frozen=True, kw_only=True):
    shares: Decimal
    avg_price_cents: Decimal


class AgentReplayAnswer(Body, frozen=True, kw_only=True):
    """A page of a wallet's events. `lastSeq`: the number of the wallet's newest event, null if it has none."""

    meta: AgentMeta
    events: list[AgentEvent]
    next_seq: int | None
    last_seq: int | None


class AgentResearch(Body, frozen=True, kw_only=True):
    market: AgentMarketRef
    resolution_rules: AgentResolutionRules
    odds: AgentOdds
    stats: AgentBookStats | None
    ladder: AgentLadder | None
    token_snapshot: AgentTokenSnapshot | None
    odds_history: list[AgentOddsPoint]
    observations: list[AgentObservationPoint]
    decided_by: list[AgentDecidingReading]
    related: list[AgentRelatedMarket]
    impact: list[AgentImpactRow]
    advisory: str | None
    disclaimer: str
    data_freshness: AgentDataFreshness


class AgentResearchAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    research: AgentResearch


class AgentResolvedAnswer(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    events: list[AgentEvent]
    next_since: str | None


class AgentResultAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    result: AgentResult


class AgentRung(Body, frozen=True, kw_only=True):
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


class AgentSentimentActivity(Body, frozen=True, kw_only=True):
    total_bets: int
    total_pool_usd: Decimal


class AgentSentimentAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    token: str
    intel: AgentSentimentIntel


class AgentSentimentIntel(Body, frozen=True, kw_only=True):
    token: str
    has_signal: bool
    market_count: int
    sentiment: AgentSentimentScore
    suggested_bet: AgentSuggestedBet | None
    quality: AgentSentimentQuality
    activity: AgentSentimentActivity
    top_market: AgentSentimentMarket | None
    markets: list[AgentSentimentMarket]
    summary: str
    as_of: str


class AgentSentimentQuality(Body, frozen=True, kw_only=True):
    distinct_bettors: int
    top_wallet_pct: Decimal
    label: str  # broad, concentrated, mixed, none


class AgentSentimentScore(Body, frozen=True, kw_only=True):
    score: Decimal
    lean: Decimal
    label: str  # bearish, bullish, neutral, strongly_bearish, strongly_bullish
    basis: str  # equal_weight, none, pool_weighted
    confidence: str  # high, low, medium, none
    directional_market_count: int
    directional_pool_usd: Decimal
    directional_bettors: int


class AgentSettlementRef(Body, frozen=True, kw_only=True):
    contract: str
    market_key: str


class AgentSourcePool(Body, frozen=True, kw_only=True):
    name: str
    address: str
    url: str | None


class AgentStats(Body, frozen=True, kw_only=True):
    markets: AgentMarketCounts
    total_bets: int
    total_volume_usd: Decimal
    total_paid_out_usd: Decimal
    median_payout_delay_sec: Decimal | None
    auto_payout_rate: Decimal | None
    proof_samples: list[str]
    custody: str
    as_of: str


class AgentStatsAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    stats: AgentStats


class AgentTestAnswer(Body, frozen=True, kw_only=True):
    """A test event. `note`: why the event was not sent or not accepted, null if it was accepted."""

    meta: AgentMeta
    event: AgentEvent
    webhook: AgentWebhookRegistration
    note: str | None


class AgentTokenDomain(Body, frozen=True, kw_only=True):
    name: str
    version: str
    intent_nonce: str
    intent_valid_after: str
    receive_nonce: str
    receive_primary_type: str


class AgentTokenSnapshot(Body, frozen=True, kw_only=True):
    token_symbol: str
    current_market_cap_usd: Decimal
    current_price_usd: Decimal | None
    target_market_cap_usd: Decimal
    distance_to_target_pct: Decimal
    reached_target: bool
    source: str
    source_url: str
    observed_at: str


class AgentTradeAnswer(Body, frozen=True, kw_only=True):
    """The response to a paid trade. `extensions["offer-receipt"]`: the signed receipt. `escapeKit`: in bound mode, the
    call that settles the payment, which anyone may send."""

    meta: AgentMeta
    replay: bool
    receipt: AgentTradeReceipt
    extensions: dict[str, Any] | None = None
    escape_kit: AgentEscapeKit | None = None


class AgentTradeProofAnswer(Body, frozen=True, kw_only=True):
    meta: AgentChainMeta
    trade_id: str
    market: AgentProofMarket
    position: AgentProofPosition
    settlement: AgentProofSettlement
    attribution: AgentAttribution


class AgentWebhookAnswer(Body, frozen=True, kw_only=True):
    meta: AgentMeta
    webhook: AgentWebhookRegistration


class AgentWebhookRegistration(Body, frozen=True, kw_only=True):
    """A registered webhook. Public events name it by `ref`, never by its id, which is all that deleting it requires."""

    id: str
    wallet: str
    url: str
    status: str  # active, disabled, pending_verification
    secret: str | None
    created_at: str
    ref: str
    next_seq: int
    failed_attempts: int
    failing_since: str | None
    last_error: str | None


class AgentChainMeta(AgentMeta, frozen=True, kw_only=True):
    freshness: AgentFreshness


class AgentMarketFacts(AgentMarketTimes, frozen=True, kw_only=True):
    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    category: str  # market_cap, market_cap_range, price_direction
    token_symbol: str
    chain_id: str
    deadline_label: str
    status: str  # closed, open, resolved, void
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: Decimal
    virtual_liquidity_usd: Decimal
    pot_cap_usd: Decimal
    target_market_cap_usd: Decimal | None
    headline: str | None
    links: AgentMarketLinks
    series: str | None
    settlement: AgentSettlementRef


class AgentPosition(AgentMarketTimes, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[AgentBetWarning]
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
    status: str  # open, resolved-lost, resolved-refunded, resolved-won
    app_url: str
    proof_url: str | None
    filled_at: str | None
    payout_tx: str | None
    trade_id: str


class AgentPricedOutcome(AgentOutcomeRef, frozen=True, kw_only=True):
    implied_pct: Decimal | None


class AgentQuote(AgentMarketTimes, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[AgentBetWarning]
    market_id: str
    side: str
    size_usd: Decimal
    tier: str  # locked, simple
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
    post_trade_odds: AgentOdds
    impact_pct: Decimal | None
    largest_size_usd: Decimal
    ladder: AgentLadder | None
    token_snapshot: AgentTokenSnapshot | None
    stats: AgentBookStats | None


class AgentRelatedMarket(AgentMarketTimes, frozen=True, kw_only=True):
    id: str
    slug: str
    question: str
    category: str  # market_cap, market_cap_range, price_direction


class AgentResolutionRules(AgentMarketTimes, frozen=True, kw_only=True):
    """A market's rules. `feedKind` is `pool` if readings are computed from pools, `published` if a publisher posts
    them, `rounds` if another feed on the chain has them."""

    source: str
    source_url: str | None
    metric: str  # market_cap, market_cap_range, price_direction
    comparator: str | None
    threshold_label: str | None
    early_resolvable: bool
    description: str
    feed_kind: str  # pool, published, rounds
    computed_from: AgentComputedFrom | None


class AgentResult(AgentMarketTimes, frozen=True, kw_only=True):
    market_id: str
    status: str  # pending, resolved
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


class AgentSentimentMarket(AgentMarketTimes, frozen=True, kw_only=True):
    """A market that counts towards the sentiment. `pool` is USD without fees. `bullishPct` is null if the market has no
    direction, `yesPriceCents` is null for a range."""

    market_id: str
    slug: str
    short_title: str
    kind: str  # market_cap, market_cap_range, price_direction
    yes_price_cents: Decimal | None
    pool: Decimal
    total_bets: int
    directional: bool
    bullish_pct: Decimal | None
    app_url: str


class AgentSuggestedBet(AgentMarketTimes, frozen=True, kw_only=True):
    market_id: str
    slug: str
    short_title: str
    side: str
    side_label: str  # DOWN, NO, UP, YES
    implied_cents: int
    bet_url: str


class AgentTradeReceipt(AgentMarketTimes, frozen=True, kw_only=True):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[AgentBetWarning]
    trade_id: str
    market_id: str
    side: str
    size_usd: Decimal
    simulated: bool
    tx_hash: str | None
    explorer_url: str | None
    intent_hash: str
    builder_code: str | None
    position: AgentReceiptPosition
    proof_url: str | None
    recorded_at: str


class AgentMarketRef(AgentMarketFacts, frozen=True, kw_only=True):
    outcomes: list[AgentPricedOutcome] | None
    volume_usd: Decimal
    total_bets: int
    volume24h_usd: Decimal
    odds: AgentOdds | None
    result: AgentEnded | None
    opens_at: str | None


class AgentProofMarket(AgentMarketFacts, frozen=True, kw_only=True):
    """A market as a proof shows it."""

    outcomes: list[AgentOutcomeRef] | None


class AgentMarketDetail(AgentMarketRef, frozen=True, kw_only=True):
    stats: AgentBookStats

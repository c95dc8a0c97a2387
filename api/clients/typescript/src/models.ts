// The API's response bodies. Made by `python -m tests.support.client_models`; not to be edited.

/** One of these; more may come. */
export type Known<T extends string> = T | (string & {});

/** Every code that the API refuses with; /errors.txt has their causes. */
export type ErrorCode = Known<
  | "idem_conflict"
  | "insufficient_balance"
  | "internal_error"
  | "invalid_request"
  | "invalid_side"
  | "invalid_wallet"
  | "market_closed"
  | "market_not_found"
  | "method_not_allowed"
  | "not_found"
  | "payload_too_large"
  | "payment_invalid"
  | "platform_disabled"
  | "platform_paused"
  | "pool_impact_exceeded"
  | "quote_expired"
  | "quote_mismatch"
  | "quote_required"
  | "rate_limited"
  | "size_below_min"
  | "slippage_exceeded"
  | "unsupported_market"
  | "unsupported_media_type"
>;

export interface AgentAttribution {
  source: string | null;
  mentionId: string | null;
  ref: string | null;
  builderCode: string | null;
}

/** A reason to reconsider a bet. */
export interface AgentBetWarning {
  code: Known<"closes_soon" | "first_on_its_side" | "pays_less_than_stake" | "wallet_underfunded">;
  message: string;
}

export interface AgentBookStats {
  totalBets: number;
  totalPoolUsd: number;
  yesPoolUsd: number;
  noPoolUsd: number;
  feeUsd: number;
}

export interface AgentChainMeta extends AgentMeta {
  freshness: AgentFreshness;
}

/** The body of a 402, as x402 v1 defines it. `error`: why the previous payment was not accepted. `extensions`: the
signed offer. */
export interface AgentChallenge {
  x402Version: number;
  error: string | null;
  accepts: Array<AgentPaymentOffer>;
  extensions?: Record<string, unknown>;
}

export interface AgentComputedFrom {
  description: string;
  pools: Array<AgentSourcePool>;
  windowSeconds: number;
  stepSeconds: number;
  supply: string;
}

export interface AgentDataFreshness {
  oddsAt: string | null;
  snapshotAt: string | null;
  observationsAt: string | null;
}

/** A reading that decides a market, with the transaction that recorded it, if any. */
export interface AgentDecidingReading {
  moment: string;
  readAt: string;
  value: number | null;
  recorded: boolean;
  txHash: string | null;
  txUrl: string | null;
}

export interface AgentDeletedAnswer {
  meta: AgentMeta;
  id: string;
  deleted: boolean;
}

/** The markets that match a text. `reason` is present only if `silent` is true: `scam`, `greeting`, `settled_fact`
or `no_claim`. */
export interface AgentDiscoverAnswer {
  meta: AgentChainMeta;
  query: string | null;
  silent: boolean;
  /** Absent unless silent. */
  reason?: Known<"greeting" | "no_claim" | "scam" | "settled_fact">;
  count: number;
  matches: Array<AgentDiscoverMatch>;
}

/** A market that was found. `reason` is `cashtag $SYM`, `shares word, word` or `browse`. */
export interface AgentDiscoverMatch {
  market: AgentMarketRef;
  matchKind: Known<"exact" | "related">;
  score: number;
  matchedCashtags: Array<string>;
  matchedTerms: Array<string>;
  reason: string;
}

/** A market's result in short. `outcome`: the winning outcome's key, or `void`. */
export interface AgentEnded {
  outcome: string;
  label: string;
  resolvedAt: string;
  refunded: boolean;
}

/** The call that settles a bound payment, which anyone may send to the contract until `expiresAt`. */
export interface AgentEscapeKit {
  to: string;
  data: string;
  chainId: number;
  /** Unix seconds. */
  expiresAt: number;
}

/** A wallet's event. `payload` has the keys documented for its type and, in a correction, also `undone` and
`corrects`. */
export interface AgentEvent {
  eventId: string;
  /** The event's number among the wallet's events. `webhook.verify` and `test` go to one endpoint only and repeat the number of the wallet's newest event, or 0 if it has none. */
  seq: number;
  type: Known<"bet.placed" | "bet.settlement_submitted" | "market.resolved" | "payout.failed" | "payout.paid" | "payout.submitted" | "position.lost" | "position.won" | "test" | "webhook.delivery_failed" | "webhook.verify">;
  createdAt: string;
  wallet: string | null;
  marketId: string | null;
  tradeId: string | null;
  payload: Record<string, unknown>;
  proofUrl: string | null;
}

/** The block that a response's data is from. */
export interface AgentFreshness {
  block: number;
  blockAt: string;
  /** How many blocks the index is behind. */
  lagBlocks: number;
}

export interface AgentFunding {
  network: string;
  usdcAddress: string;
  docsUrl: string;
}

export interface AgentGettingStarted {
  meta: AgentMeta;
  intro: string;
  autoPayoutNote: string;
  steps: Array<AgentGuideStep>;
}

export interface AgentGuideStep {
  step: number;
  title: string;
  method: Known<"GET" | "POST">;
  url: string;
  exampleRequest: string | null;
  exampleResponse: string;
  note: string;
}

/** The state of the agent markets. `reason`: why `ok` is false. `attester`: the address that signs offers, receipts
and callbacks. */
export interface AgentHealth {
  ok: boolean;
  marketsOpen: number;
  lastResolveTickAt: string | null;
  lastSnapshotTickAt: string | null;
  lastCanaryAt: string | null;
  payoutQueueDepth: number | null;
  version: string;
  reason: string | null;
  attester: string | null;
}

export interface AgentHealthAnswer {
  meta: AgentMeta;
  health: AgentHealth;
}

export interface AgentImpactRow {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: Array<AgentBetWarning>;
  sizeUsd: number;
  priceCents: number | null;
  impactPct: number | null;
}

export interface AgentLadder {
  outcomes: Array<AgentRung>;
  currentBucketKey: string | null;
  currentMarketCapUsd: number | null;
  totalBackedUsd: number;
}

export interface AgentMarketCounts {
  open: number;
  resolved: number;
}

export interface AgentMarketDetail extends AgentMarketRef {
  stats: AgentBookStats;
}

export interface AgentMarketFacts extends AgentMarketTimes {
  id: string;
  slug: string;
  question: string;
  shortTitle: string;
  summary: string;
  category: Known<"market_cap" | "market_cap_range" | "price_direction">;
  tokenSymbol: string;
  chainId: string;
  deadlineLabel: string;
  status: Known<"closed" | "open" | "resolved" | "void">;
  feeBps: number;
  feeRecipientLabel: string;
  defaultTicketUsd: number;
  virtualLiquidityUsd: number;
  potCapUsd: number;
  targetMarketCapUsd: number | null;
  headline: string | null;
  links: AgentMarketLinks;
  series: string | null;
  settlement: AgentSettlementRef;
}

export interface AgentMarketLinks {
  app: string;
  quote: string;
  trade: string;
  research: string;
}

export interface AgentMarketRef extends AgentMarketFacts {
  outcomes: Array<AgentPricedOutcome> | null;
  volumeUsd: number;
  totalBets: number;
  volume24hUsd: number;
  /** null after the end, when there is a `result`. */
  odds: AgentOdds | null;
  result: AgentEnded | null;
  /** When betting begins, if the market is `closed` because betting has not begun; otherwise null. */
  opensAt: string | null;
}

export interface AgentMarketTimes {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
}

export interface AgentMarkets {
  meta: AgentChainMeta;
  count: number;
  markets: Array<AgentMarketRef>;
  nextCursor: string | null;
}

export interface AgentMeta {
  name: string;
  version: string;
  generatedAt: string;
  docsUrl: string;
}

export interface AgentObservationPoint {
  observedAt: string;
  value: number | null;
  label: string | null;
  sourceUrl: string | null;
  txHash: string;
  txUrl: string | null;
}

export interface AgentOdds {
  yesPriceCents: number | null;
  noPriceCents: number | null;
}

/** The price after a bet. `yesPct`: the first outcome's percentage, on two-sided markets. */
export interface AgentOddsPoint {
  at: string;
  yesPct: number | null;
  outcomeKey: string | null;
  sizeUsd: number;
}

export interface AgentOneMarket {
  meta: AgentChainMeta;
  market: AgentMarketDetail;
}

export interface AgentOutcomeRef {
  key: string;
  label: string;
  shortLabel: string;
  lowerUsd: number | null;
  upperUsd: number | null;
  /** Its price before the first bet. */
  priorPct: number;
  startAt?: string;
  endAt?: string;
}

export interface AgentPaymentOffer {
  scheme: string;
  network: string;
  maxAmountRequired: string;
  resource: string;
  description: string;
  mimeType: string;
  payTo: string;
  maxTimeoutSeconds: number;
  asset: string;
  extra: AgentTokenDomain;
}

export interface AgentPosition extends AgentMarketTimes {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: Array<AgentBetWarning>;
  marketId: string;
  slug: string;
  question: string;
  side: string;
  outcomeLabel: string;
  shares: number;
  stakedUsd: number;
  avgEntryCents: number;
  currentCents: number;
  pnlUsd: number;
  maxPayoutUsd: number;
  payoutUsd: number | null;
  status: Known<"open" | "resolved-lost" | "resolved-refunded" | "resolved-won">;
  appUrl: string;
  proofUrl: string | null;
  filledAt: string | null;
  /** The transaction that paid it out or refunded it; null until then. */
  payoutTx: string | null;
  tradeId: string;
}

/** The totals of all the wallet's positions, including those on other pages. */
export interface AgentPositionSummary {
  openCount: number;
  resolvedCount: number;
  totalStakedUsd: number;
  totalPnlUsd: number;
}

export interface AgentPositionsAnswer {
  meta: AgentChainMeta;
  wallet: string;
  count: number;
  summary: AgentPositionSummary;
  positions: Array<AgentPosition>;
  /** The cursor for older positions; null on the last page. */
  nextCursor: string | null;
}

export interface AgentPricedOutcome extends AgentOutcomeRef {
  /** Its price; the prices of all outcomes add up to 100. null after the end. */
  impliedPct: number | null;
}

/** A market as a proof shows it. */
export interface AgentProofMarket extends AgentMarketFacts {
  outcomes: Array<AgentOutcomeRef> | null;
}

export interface AgentProofPosition {
  userId: string;
  walletAddress: string;
  side: string;
  shares: number;
  priceCents: number;
  sizeUsd: number;
  feeUsd: number;
}

export interface AgentProofSettlement {
  txHash: string;
  explorerUrl: string;
  status: Known<"confirmed" | "final" | "submitted">;
  network: string;
  settledAt: string | null;
  contract: string;
  stakeId: string;
  blockNumber: number;
}

export interface AgentQuote extends AgentMarketTimes {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: Array<AgentBetWarning>;
  marketId: string;
  side: string;
  sizeUsd: number;
  tier: Known<"locked" | "simple">;
  quoteId: string;
  expiresAt: string;
  bookVersion: string;
  priceCents: number;
  estimatedShares: number;
  suggestedMinSharesOut: number;
  suggestedMaxPriceCents: number | null;
  feeBps: number;
  feeUsd: number;
  netStakeUsd: number;
  postTradeOdds: AgentOdds;
  impactPct: number | null;
  largestSizeUsd: number;
  ladder: AgentLadder | null;
  tokenSnapshot: AgentTokenSnapshot | null;
  stats: AgentBookStats | null;
}

export interface AgentQuoteAnswer {
  meta: AgentChainMeta;
  quote: AgentQuote;
}

export interface AgentReadiness {
  wallet: string;
  usdcBalanceUsd: number | null;
  canBetMin: boolean | null;
  minBetUsd: number;
  simpleTierMaxUsd: number;
  gasNeeded: boolean;
  reason: string;
  funding: AgentFunding;
  hint: string | null;
}

export interface AgentReadinessAnswer {
  meta: AgentMeta;
  readiness: AgentReadiness;
}

export interface AgentReceiptPosition {
  shares: number;
  avgPriceCents: number;
}

export interface AgentRelatedMarket extends AgentMarketTimes {
  id: string;
  slug: string;
  question: string;
  category: Known<"market_cap" | "market_cap_range" | "price_direction">;
}

/** A page of a wallet's events. `lastSeq`: the number of the wallet's newest event, null if it has none. */
export interface AgentReplayAnswer {
  meta: AgentMeta;
  events: Array<AgentEvent>;
  nextSeq: number | null;
  lastSeq: number | null;
}

export interface AgentResearch {
  market: AgentMarketRef;
  resolutionRules: AgentResolutionRules;
  odds: AgentOdds;
  stats: AgentBookStats | null;
  ladder: AgentLadder | null;
  tokenSnapshot: AgentTokenSnapshot | null;
  oddsHistory: Array<AgentOddsPoint>;
  observations: Array<AgentObservationPoint>;
  decidedBy: Array<AgentDecidingReading>;
  related: Array<AgentRelatedMarket>;
  impact: Array<AgentImpactRow>;
  advisory: string | null;
  disclaimer: string;
  dataFreshness: AgentDataFreshness;
}

export interface AgentResearchAnswer {
  meta: AgentChainMeta;
  research: AgentResearch;
}

/** A market's rules. `feedKind` is `pool` if readings are computed from pools, `published` if a publisher posts
them, `rounds` if another feed on the chain has them. */
export interface AgentResolutionRules extends AgentMarketTimes {
  source: string;
  sourceUrl: string | null;
  metric: Known<"market_cap" | "market_cap_range" | "price_direction">;
  comparator: string | null;
  thresholdLabel: string | null;
  earlyResolvable: boolean;
  description: string;
  feedKind: Known<"pool" | "published" | "rounds">;
  computedFrom: AgentComputedFrom | null;
}

export interface AgentResolvedAnswer {
  meta: AgentMeta;
  events: Array<AgentEvent>;
  nextSince: string | null;
}

export interface AgentResult extends AgentMarketTimes {
  marketId: string;
  status: Known<"pending" | "resolved">;
  resolvedOutcome: string | null;
  resolvedOutcomeLabel: string | null;
  resolvedAt: string | null;
  source: string;
  sourceUrl: string | null;
  observedMarketCapUsd: number | null;
  /** On an up or down market, the reading at the start. */
  startReadingUsd: number | null;
  /** The reading that decided the market. */
  endReadingUsd: number | null;
  payoutPerShareUsd: number | null;
  poolUsd: number;
  winningShares: number;
  proofUrl: string | null;
  refunded: boolean;
  txHash: string | null;
}

export interface AgentResultAnswer {
  meta: AgentChainMeta;
  result: AgentResult;
}

export interface AgentRung {
  key: string;
  label: string;
  shortLabel: string;
  lowerUsd: number | null;
  upperUsd: number | null;
  /** Its price before the first bet. */
  priorPct: number;
  startAt: string | null;
  endAt: string | null;
  impliedPct: number;
  backedUsd: number;
  isCurrent: boolean;
}

export interface AgentSentimentActivity {
  totalBets: number;
  totalPoolUsd: number;
}

export interface AgentSentimentAnswer {
  meta: AgentChainMeta;
  token: string;
  intel: AgentSentimentIntel;
}

export interface AgentSentimentIntel {
  token: string;
  hasSignal: boolean;
  marketCount: number;
  sentiment: AgentSentimentScore;
  suggestedBet: AgentSuggestedBet | null;
  quality: AgentSentimentQuality;
  activity: AgentSentimentActivity;
  topMarket: AgentSentimentMarket | null;
  markets: Array<AgentSentimentMarket>;
  summary: string;
  asOf: string;
}

/** A market that counts towards the sentiment. `pool` is USD without fees. `bullishPct` is null if the market has no
direction, `yesPriceCents` is null for a range. */
export interface AgentSentimentMarket extends AgentMarketTimes {
  marketId: string;
  slug: string;
  shortTitle: string;
  kind: Known<"market_cap" | "market_cap_range" | "price_direction">;
  yesPriceCents: number | null;
  pool: number;
  totalBets: number;
  directional: boolean;
  bullishPct: number | null;
  appUrl: string;
}

export interface AgentSentimentQuality {
  distinctBettors: number;
  topWalletPct: number;
  label: Known<"broad" | "concentrated" | "mixed" | "none">;
}

export interface AgentSentimentScore {
  score: number;
  lean: number;
  label: Known<"bearish" | "bullish" | "neutral" | "strongly_bearish" | "strongly_bullish">;
  basis: Known<"equal_weight" | "none" | "pool_weighted">;
  confidence: Known<"high" | "low" | "medium" | "none">;
  directionalMarketCount: number;
  directionalPoolUsd: number;
  directionalBettors: number;
}

export interface AgentSettlementRef {
  contract: string;
  marketKey: string;
}

export interface AgentSourcePool {
  name: string;
  address: string;
  url: string | null;
}

export interface AgentStats {
  markets: AgentMarketCounts;
  totalBets: number;
  totalVolumeUsd: number;
  totalPaidOutUsd: number;
  medianPayoutDelaySec: number | null;
  /** The share of winning stakes, in the markets of the last week, that the service paid within 10 minutes of resolution. Refunds are not counted. */
  autoPayoutRate: number | null;
  proofSamples: Array<string>;
  custody: string;
  asOf: string;
}

export interface AgentStatsAnswer {
  meta: AgentChainMeta;
  stats: AgentStats;
}

export interface AgentSuggestedBet extends AgentMarketTimes {
  marketId: string;
  slug: string;
  shortTitle: string;
  side: string;
  sideLabel: Known<"DOWN" | "NO" | "UP" | "YES">;
  impliedCents: number;
  betUrl: string;
}

/** A test event. `note`: why the event was not sent or not accepted, null if it was accepted. */
export interface AgentTestAnswer {
  meta: AgentMeta;
  event: AgentEvent;
  webhook: AgentWebhookRegistration;
  note: string | null;
}

export interface AgentTokenDomain {
  name: string;
  version: string;
  intentNonce: string;
  intentValidAfter: string;
  receiveNonce: string;
  receivePrimaryType: string;
}

export interface AgentTokenSnapshot {
  tokenSymbol: string;
  currentMarketCapUsd: number;
  currentPriceUsd: number | null;
  targetMarketCapUsd: number;
  distanceToTargetPct: number;
  reachedTarget: boolean;
  source: string;
  sourceUrl: string;
  observedAt: string;
}

/** The response to a paid trade. `extensions["offer-receipt"]`: the signed receipt. `escapeKit`: in bound mode, the
call that settles the payment, which anyone may send. */
export interface AgentTradeAnswer {
  meta: AgentMeta;
  replay: boolean;
  receipt: AgentTradeReceipt;
  extensions?: Record<string, unknown>;
  escapeKit?: AgentEscapeKit | null;
}

export interface AgentTradeProofAnswer {
  meta: AgentChainMeta;
  tradeId: string;
  market: AgentProofMarket;
  position: AgentProofPosition;
  settlement: AgentProofSettlement;
  attribution: AgentAttribution;
}

export interface AgentTradeReceipt extends AgentMarketTimes {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: Array<AgentBetWarning>;
  tradeId: string;
  marketId: string;
  side: string;
  sizeUsd: number;
  simulated: boolean;
  txHash: string | null;
  explorerUrl: string | null;
  intentHash: string;
  builderCode: string | null;
  position: AgentReceiptPosition;
  proofUrl: string | null;
  recordedAt: string;
}

export interface AgentWebhookAnswer {
  meta: AgentMeta;
  webhook: AgentWebhookRegistration;
}

/** A registered webhook. Public events name it by `ref`, never by its id, which is all that deleting it requires. */
export interface AgentWebhookRegistration {
  id: string;
  wallet: string;
  url: string;
  status: Known<"active" | "disabled" | "pending_verification">;
  secret: string | null;
  createdAt: string;
  ref: string;
  nextSeq: number;
  failedAttempts: number;
  failingSince: string | null;
  lastError: string | null;
}

// The answers of the API. Made by `python -m tests.support.client_models`; not to be edited.

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

/** One event of a wallet. `payload` has the keys documented for its type; a correction has `undone` and `corrects`
in it. */
export interface AgentEvent {
  eventId: string;
  /** Its number among the wallet's events; null for `webhook.verify` and `test`, which are addressed to one endpoint. */
  seq: number | null;
  type: Known<"bet.settlement_submitted" | "bet.placed" | "market.resolved" | "position.won" | "position.lost" | "payout.submitted" | "payout.paid" | "payout.failed" | "webhook.verify" | "webhook.delivery_failed" | "test">;
  createdAt: string;
  wallet: string | null;
  marketId: string | null;
  tradeId: string | null;
  payload: Record<string, unknown>;
  proofUrl: string | null;
}

/** The state of the agent markets: `reason` says why `ok` is false; `attester` is the address that signs offers,
receipts and callbacks. */
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

export interface AgentMarketDetail {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  id: string;
  slug: string;
  question: string;
  shortTitle: string;
  summary: string;
  category: Known<"market_cap" | "market_cap_range" | "price_direction">;
  tokenSymbol: string;
  chainId: string;
  deadlineLabel: string;
  status: Known<"open" | "closed" | "resolved" | "void">;
  feeBps: number;
  feeRecipientLabel: string;
  defaultTicketUsd: number;
  virtualLiquidityUsd: number;
  potCapUsd: number;
  targetMarketCapUsd: number | null;
  outcomes: PricedOutcome[] | null;
  headline: string | null;
  links: MarketLinks;
  series: string | null;
  references: Record<string, string>;
  settlement: SettlementRef;
  volumeUsd: number;
  totalBets: number;
  volume24hUsd: number;
  /** null once it has ended: then `result` stands instead. */
  odds: Odds | null;
  result: Ended | null;
  stats: BookStats;
}

export interface AgentMarketRef {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  id: string;
  slug: string;
  question: string;
  shortTitle: string;
  summary: string;
  category: Known<"market_cap" | "market_cap_range" | "price_direction">;
  tokenSymbol: string;
  chainId: string;
  deadlineLabel: string;
  status: Known<"open" | "closed" | "resolved" | "void">;
  feeBps: number;
  feeRecipientLabel: string;
  defaultTicketUsd: number;
  virtualLiquidityUsd: number;
  potCapUsd: number;
  targetMarketCapUsd: number | null;
  outcomes: PricedOutcome[] | null;
  headline: string | null;
  links: MarketLinks;
  series: string | null;
  references: Record<string, string>;
  settlement: SettlementRef;
  volumeUsd: number;
  totalBets: number;
  volume24hUsd: number;
  /** null once it has ended: then `result` stands instead. */
  odds: Odds | null;
  result: Ended | null;
}

export interface AgentPosition {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: BetWarning[];
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
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
  status: Known<"open" | "resolved-won" | "resolved-lost" | "resolved-refunded">;
  appUrl: string;
  proofUrl: string | null;
  filledAt: string | null;
  tradeId: string;
}

export interface AgentQuote {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: BetWarning[];
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  marketId: string;
  side: string;
  sizeUsd: number;
  tier: Known<"simple" | "locked">;
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
  postTradeOdds: Odds;
  impactPct: number | null;
  largestSizeUsd: number;
  ladder: Ladder | null;
  tokenSnapshot: TokenSnapshot | null;
  stats: BookStats | null;
}

export interface AgentReadiness {
  wallet: string;
  usdcBalanceUsd: number | null;
  canBetMin: boolean | null;
  minBetUsd: number;
  simpleTierMaxUsd: number;
  gasNeeded: boolean;
  reason: string;
  funding: Funding;
  hint: string | null;
}

export interface AgentResearch {
  market: AgentMarketRef;
  resolutionRules: ResolutionRules;
  odds: Odds;
  stats: BookStats | null;
  ladder: Ladder | null;
  tokenSnapshot: TokenSnapshot | null;
  oddsHistory: OddsPoint[];
  observations: ObservationPoint[];
  decidedBy: DecidingReading[];
  related: RelatedMarket[];
  impact: ImpactRow[];
  advisory: string | null;
  disclaimer: string;
  dataFreshness: DataFreshness;
}

export interface AgentResult {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  marketId: string;
  status: Known<"resolved" | "pending">;
  resolvedOutcome: string | null;
  resolvedOutcomeLabel: string | null;
  resolvedAt: string | null;
  source: string;
  sourceUrl: string | null;
  observedMarketCapUsd: number | null;
  /** Of an up or down market: what its end was compared with. */
  startReadingUsd: number | null;
  /** The reading that decided. */
  endReadingUsd: number | null;
  payoutPerShareUsd: number | null;
  poolUsd: number;
  winningShares: number;
  proofUrl: string | null;
  refunded: boolean;
  txHash: string | null;
}

export interface AgentStats {
  markets: MarketCounts;
  totalBets: number;
  totalVolumeUsd: number;
  totalPaidOutUsd: number;
  medianPayoutDelaySec: number | null;
  autoPayoutRate: number | null;
  proofSamples: string[];
  custody: string;
  asOf: string;
}

export interface AgentTradeReceipt {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: BetWarning[];
  tradeId: string;
  marketId: string;
  side: string;
  sizeUsd: number;
  simulated: boolean;
  txHash: string | null;
  explorerUrl: string | null;
  intentHash: string;
  builderCode: string | null;
  position: ReceiptPosition;
  proofUrl: string | null;
  recordedAt: string;
}

/** A registered webhook. `ref` names it in public events; its id, which allows to delete it, never is in one. */
export interface AgentWebhookRegistration {
  id: string;
  wallet: string;
  url: string;
  status: Known<"pending_verification" | "active" | "disabled">;
  secret: string | null;
  createdAt: string;
  ref: string;
  nextSeq: number;
  failedAttempts: number;
  failingSince: string | null;
  lastError: string | null;
}

export interface Attribution {
  source: string | null;
  mentionId: string | null;
  ref: string | null;
  builderCode: string | null;
}

export interface BetWarning {
  code: Known<"pays_less_than_stake" | "first_on_its_side" | "wallet_underfunded" | "closes_soon">;
  message: string;
}

export interface BookStats {
  totalBets: number;
  totalPoolUsd: number;
  yesPoolUsd: number;
  noPoolUsd: number;
  feeUsd: number;
}

export interface ChainMeta {
  name: string;
  version: string;
  generatedAt: string;
  docsUrl: string;
  freshness: Freshness;
}

/** The body of a 402, as x402 v1 has it. `error` says why the payment before was not accepted; `extensions` holds
the signed offer. */
export interface Challenge {
  x402Version: number;
  error: string | null;
  accepts: PaymentOffer[];
  extensions?: Record<string, unknown> | null;
}

export interface ComputedFrom {
  description: string;
  pools: SourcePool[];
  windowSeconds: number;
  stepSeconds: number;
  maxQuietSeconds: number;
  supply: string;
}

export interface DataFreshness {
  oddsAt: string | null;
  snapshotAt: string | null;
  observationsAt: string | null;
}

export interface DecidingReading {
  moment: string;
  readAt: string;
  value: number | null;
  recorded: boolean;
  txHash: string | null;
  txUrl: string | null;
}

export interface DeletedBody {
  meta: Meta;
  id: string;
  deleted: boolean;
}

/** The markets a text is about. `reason` is there only when `silent` is true: `scam`, `greeting`, `settled_fact` or
`no_claim`. */
export interface DiscoverBody {
  meta: ChainMeta;
  query: string | null;
  silent: boolean;
  /** Absent unless silent. */
  reason?: Known<"scam" | "greeting" | "settled_fact" | "no_claim"> | null;
  count: number;
  matches: DiscoverMatch[];
}

/** A market that was found: `reason` says why it is here: `cashtag $SYM`, `shares word, word`, or `browse`. */
export interface DiscoverMatch {
  market: AgentMarketRef;
  matchKind: Known<"exact" | "related">;
  score: number;
  matchedCashtags: string[];
  matchedTerms: string[];
  reason: string;
}

/** How a market ended, in short: `outcome` is a key, or `void`. */
export interface Ended {
  outcome: string;
  label: string;
  resolvedAt: string;
  refunded: boolean;
}

/** The call that settles a bound payment, which anybody may send to the contract until `expiresAt`. */
export interface EscapeKit {
  to: string;
  data: string;
  chainId: number;
  /** Unix seconds. */
  expiresAt: number;
}

/** The block a body was made from. */
export interface Freshness {
  block: number;
  blockAt: string;
  /** Blocks the index is behind the chain. */
  lagBlocks: number;
}

export interface Funding {
  network: string;
  usdcAddress: string;
  docsUrl: string;
}

export interface GettingStarted {
  meta: Meta;
  intro: string;
  autoPayoutNote: string;
  steps: GuideStep[];
}

export interface GuideStep {
  step: number;
  title: string;
  method: Known<"GET" | "POST">;
  url: string;
  exampleRequest: string | null;
  exampleResponse: string;
  note: string;
}

export interface HealthBody {
  meta: Meta;
  health: AgentHealth;
}

export interface ImpactRow {
  projectedPayoutUsd: number;
  projectedPayoutPerShareUsd: number | null;
  warnings: BetWarning[];
  sizeUsd: number;
  priceCents: number | null;
  impactPct: number | null;
}

export interface Ladder {
  outcomes: Rung[];
  currentBucketKey: string | null;
  currentMarketCapUsd: number | null;
  totalBackedUsd: number;
}

export interface MarketCounts {
  open: number;
  resolved: number;
}

export interface MarketLinks {
  app: string;
  quote: string;
  trade: string;
  research: string;
}

export interface Markets {
  meta: ChainMeta;
  count: number;
  markets: AgentMarketRef[];
  nextCursor: string | null;
}

export interface Meta {
  name: string;
  version: string;
  generatedAt: string;
  docsUrl: string;
}

export interface ObservationPoint {
  observedAt: string;
  value: number | null;
  label: string | null;
  sourceUrl: string | null;
  txHash: string;
  txUrl: string | null;
}

export interface Odds {
  yesPriceCents: number | null;
  noPriceCents: number | null;
}

export interface OddsPoint {
  at: string;
  yesPct: number | null;
  outcomeKey: string | null;
  sizeUsd: number;
}

export interface OneMarket {
  meta: ChainMeta;
  market: AgentMarketDetail;
}

export interface OutcomeRef {
  key: string;
  label: string;
  shortLabel: string;
  lowerUsd: number | null;
  upperUsd: number | null;
  /** Where its price stood before the first bet. */
  priorPct: number;
  startAt?: string | null;
  endAt?: string | null;
}

export interface PaymentOffer {
  scheme: string;
  network: string;
  maxAmountRequired: string;
  resource: string;
  description: string;
  mimeType: string;
  payTo: string;
  maxTimeoutSeconds: number;
  asset: string;
  extra: TokenDomain;
}

/** The sums over all the wallet's positions, whatever the page shows. */
export interface PositionSummary {
  openCount: number;
  resolvedCount: number;
  totalStakedUsd: number;
  totalPnlUsd: number;
}

export interface PositionsBody {
  meta: ChainMeta;
  wallet: string;
  count: number;
  summary: PositionSummary;
  positions: AgentPosition[];
  /** Of the older positions; null on the last page. */
  nextCursor: string | null;
}

export interface PricedOutcome {
  key: string;
  label: string;
  shortLabel: string;
  lowerUsd: number | null;
  upperUsd: number | null;
  /** Where its price stood before the first bet. */
  priorPct: number;
  startAt?: string | null;
  endAt?: string | null;
  /** Its price; those of all outcomes are 100 together. null once ended. */
  impliedPct: number | null;
}

/** A market as a proof shows it. */
export interface ProofMarket {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  id: string;
  slug: string;
  question: string;
  shortTitle: string;
  summary: string;
  category: Known<"market_cap" | "market_cap_range" | "price_direction">;
  tokenSymbol: string;
  chainId: string;
  deadlineLabel: string;
  status: Known<"open" | "closed" | "resolved" | "void">;
  feeBps: number;
  feeRecipientLabel: string;
  defaultTicketUsd: number;
  virtualLiquidityUsd: number;
  potCapUsd: number;
  targetMarketCapUsd: number | null;
  outcomes: OutcomeRef[] | null;
  headline: string | null;
  links: MarketLinks;
  series: string | null;
  references: Record<string, string>;
  settlement: SettlementRef;
}

export interface ProofPosition {
  userId: string;
  walletAddress: string;
  side: string;
  shares: number;
  priceCents: number;
  sizeUsd: number;
  feeUsd: number;
}

export interface ProofSettlement {
  txHash: string;
  explorerUrl: string;
  status: Known<"submitted" | "confirmed" | "final">;
  network: string;
  settledAt: string | null;
  contract: string;
  stakeId: string;
  blockNumber: number;
}

export interface QuoteBody {
  meta: ChainMeta;
  quote: AgentQuote;
}

export interface ReadinessBody {
  meta: Meta;
  readiness: AgentReadiness;
}

export interface ReceiptPosition {
  shares: number;
  avgPriceCents: number;
}

export interface RelatedMarket {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  id: string;
  slug: string;
  question: string;
  category: string;
}

/** A page of a wallet's events. `lastSeq`: the wallet's newest event, null before the first. */
export interface ReplayBody {
  meta: Meta;
  events: AgentEvent[];
  nextSeq: number | null;
  lastSeq: number | null;
}

export interface ResearchBody {
  meta: ChainMeta;
  research: AgentResearch;
}

export interface ResolutionRules {
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  source: string;
  sourceUrl: string | null;
  metric: string;
  comparator: string | null;
  thresholdLabel: string | null;
  earlyResolvable: boolean;
  description: string;
  feedKind: Known<"pool" | "published" | "rounds">;
  computedFrom: ComputedFrom | null;
}

export interface ResolvedBody {
  meta: Meta;
  events: AgentEvent[];
  nextSince: string | null;
}

export interface ResultBody {
  meta: ChainMeta;
  result: AgentResult;
}

export interface Rung {
  key: string;
  label: string;
  shortLabel: string;
  lowerUsd: number | null;
  upperUsd: number | null;
  priorPct: number;
  startAt: string | null;
  endAt: string | null;
  impliedPct: number;
  backedUsd: number;
  isCurrent: boolean;
}

export interface SentimentActivity {
  totalBets: number;
  totalPoolUsd: number;
}

export interface SentimentBody {
  meta: ChainMeta;
  token: string;
  intel: SentimentIntel;
}

export interface SentimentIntel {
  token: string;
  hasSignal: boolean;
  marketCount: number;
  sentiment: SentimentScore;
  suggestedBet: SuggestedBet | null;
  quality: SentimentQuality;
  activity: SentimentActivity;
  topMarket: SentimentMarket | null;
  markets: SentimentMarket[];
  summary: string;
  asOf: string;
}

/** A market that the reading counts: `pool` is USD less fees; `bullishPct` is null for a market without a direction,
`yesPriceCents` for a range. */
export interface SentimentMarket {
  marketId: string;
  slug: string;
  shortTitle: string;
  kind: Known<"market_cap" | "market_cap_range" | "price_direction">;
  deadlineAt: string;
  startAt: string | null;
  endsAt: string;
  settlesAfter: string;
  yesPriceCents: number | null;
  pool: number;
  totalBets: number;
  directional: boolean;
  bullishPct: number | null;
  appUrl: string;
}

export interface SentimentQuality {
  distinctBettors: number;
  topWalletPct: number;
  label: Known<"broad" | "mixed" | "concentrated" | "none">;
}

export interface SentimentScore {
  score: number;
  lean: number;
  label: Known<"strongly_bullish" | "bullish" | "neutral" | "bearish" | "strongly_bearish">;
  basis: Known<"pool_weighted" | "equal_weight" | "none">;
  confidence: Known<"high" | "medium" | "low" | "none">;
  directionalMarketCount: number;
  directionalPoolUsd: number;
  directionalBettors: number;
}

export interface SettlementRef {
  contract: string;
  marketKey: string;
}

export interface SourcePool {
  name: string;
  address: string;
  url: string | null;
}

export interface StatsBody {
  meta: ChainMeta;
  stats: AgentStats;
}

export interface SuggestedBet {
  marketId: string;
  slug: string;
  shortTitle: string;
  side: string;
  sideLabel: Known<"UP" | "DOWN" | "YES" | "NO">;
  impliedCents: number;
  betUrl: string;
}

export interface TestBody {
  meta: Meta;
  event: AgentEvent;
}

export interface TokenDomain {
  name: string;
  version: string;
  intentNonce: string;
  intentValidAfter: string;
  receiveNonce: string;
  receivePrimaryType: string;
}

export interface TokenSnapshot {
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

/** The answer to a paid trade: `extensions["offer-receipt"]` holds the signed receipt; `escapeKit` is the call
anybody may send, in bound mode. */
export interface TradeBody {
  meta: Meta;
  replay: boolean;
  receipt: AgentTradeReceipt;
  extensions?: Record<string, unknown> | null;
  escapeKit?: EscapeKit | null;
}

export interface TradeProofBody {
  meta: ChainMeta;
  tradeId: string;
  market: ProofMarket;
  position: ProofPosition;
  settlement: ProofSettlement;
  attribution: Attribution;
}

export interface WebhookBody {
  meta: Meta;
  webhook: AgentWebhookRegistration;
}

// Every plain question to the API, as a method.

import type { AgentDeletedAnswer, AgentDiscoverAnswer, AgentGettingStarted, AgentHealthAnswer, AgentMarkets, AgentOneMarket, AgentPositionsAnswer, AgentQuoteAnswer, AgentReadinessAnswer, AgentReplayAnswer, AgentResearchAnswer, AgentResolvedAnswer, AgentResultAnswer, AgentSentimentAnswer, AgentStatsAnswer, AgentTestAnswer, AgentTradeProofAnswer, AgentWebhookAnswer } from "./models.js";

export type Query = Record<string, string | number | boolean | undefined>;

/** The reads and the smaller writes. A `wallet` left out is the client's own. */
export abstract class Operations {
  protected abstract call<T>(method: string, path: string, query?: Query): Promise<T>;
  protected abstract own(wallet: string | undefined): string | undefined;

  /** List tradeable markets. */
  markets(query: { status?: string; type?: string; token?: string; ids?: string; limit?: number; cursor?: string } = {}): Promise<AgentMarkets> {
    return this.call("GET", `/markets`, query);
  }

  /** One market. */
  market(id: string): Promise<AgentOneMarket> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}`);
  }

  /** Research bundle. */
  research(id: string): Promise<AgentResearchAnswer> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}/research`);
  }

  /** Find markets by free text or by a social post. */
  discover(query: { q?: string; post?: string; limit?: number } = {}): Promise<AgentDiscoverAnswer> {
    return this.call("GET", `/discover`, query);
  }

  /** What the crowd thinks of a token. */
  sentiment(query: { token: string }): Promise<AgentSentimentAnswer> {
    return this.call("GET", `/sentiment`, query);
  }

  /** Price a bet. */
  quote(query: { marketId: string; side?: string; sizeUsd?: number; wallet?: string }): Promise<AgentQuoteAnswer> {
    return this.call("GET", `/quote`, { ...query, wallet: this.own(query.wallet) });
  }

  /** A wallet's positions, newest first. */
  positions(query: { wallet?: string; limit?: number; cursor?: string } = {}): Promise<AgentPositionsAnswer> {
    return this.call("GET", `/positions`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a market resolved. */
  result(query: { marketId: string }): Promise<AgentResultAnswer> {
    return this.call("GET", `/result`, query);
  }

  /** Settlement proof of a trade. */
  proof(tradeId: string): Promise<AgentTradeProofAnswer> {
    return this.call("GET", `/proof/${encodeURIComponent(tradeId)}`);
  }

  /** Can this wallet bet? */
  readiness(address: string): Promise<AgentReadinessAnswer> {
    return this.call("GET", `/wallet/${encodeURIComponent(address)}/readiness`);
  }

  /** Platform statistics. */
  stats(): Promise<AgentStatsAnswer> {
    return this.call("GET", `/stats`);
  }

  /** Liveness and trading status. */
  health(): Promise<AgentHealthAnswer> {
    return this.call("GET", `/health`);
  }

  /** Onboarding in six steps. */
  gettingStarted(): Promise<AgentGettingStarted> {
    return this.call("GET", `/getting-started`);
  }

  /** A wallet's events in order. */
  replay(query: { wallet?: string; fromSeq?: number; limit?: number } = {}): Promise<AgentReplayAnswer> {
    return this.call("GET", `/events/replay`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a wallet's markets ended. */
  resolved(query: { wallet?: string; since?: string; limit?: number } = {}): Promise<AgentResolvedAnswer> {
    return this.call("GET", `/resolved`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a webhook stands. */
  webhook(id: string): Promise<AgentWebhookAnswer> {
    return this.call("GET", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Remove a webhook. */
  deleteWebhook(id: string): Promise<AgentDeletedAnswer> {
    return this.call("DELETE", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Send a test event. */
  testWebhook(id: string): Promise<AgentTestAnswer> {
    return this.call("POST", `/webhooks/${encodeURIComponent(id)}/test`);
  }
}

// Every plain question to the API, as a method. Made by `python -m tests.support.client_models`; not to be edited.

import type { DeletedBody, DiscoverBody, GettingStarted, HealthBody, Markets, OneMarket, PositionsBody, QuoteBody, ReadinessBody, ReplayBody, ResearchBody, ResolvedBody, ResultBody, SentimentBody, StatsBody, TestBody, TradeProofBody, WebhookBody } from "./models.js";

export type Query = Record<string, string | number | boolean | undefined>;

/** The reads and the smaller writes. A `wallet` left out is the client's own. */
export abstract class Operations {
  protected abstract call<T>(method: string, path: string, query?: Query): Promise<T>;
  protected abstract own(wallet: string | undefined): string | undefined;

  /** List tradeable markets. */
  markets(query: { status?: string; type?: string; token?: string; ids?: string; limit?: number; cursor?: string } = {}): Promise<Markets> {
    return this.call("GET", `/markets`, query);
  }

  /** One market. */
  market(id: string): Promise<OneMarket> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}`);
  }

  /** Research bundle. */
  research(id: string): Promise<ResearchBody> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}/research`);
  }

  /** Find markets by free text or by a social post. */
  discover(query: { q?: string; post?: string; limit?: number } = {}): Promise<DiscoverBody> {
    return this.call("GET", `/discover`, query);
  }

  /** What the crowd thinks of a token. */
  sentiment(query: { token: string }): Promise<SentimentBody> {
    return this.call("GET", `/sentiment`, query);
  }

  /** Price a bet. */
  quote(query: { marketId: string; side?: string; sizeUsd?: number; wallet?: string }): Promise<QuoteBody> {
    return this.call("GET", `/quote`, { ...query, wallet: this.own(query.wallet) });
  }

  /** A wallet's positions, newest first. */
  positions(query: { wallet?: string; limit?: number; cursor?: string } = {}): Promise<PositionsBody> {
    return this.call("GET", `/positions`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a market resolved. */
  result(query: { marketId: string }): Promise<ResultBody> {
    return this.call("GET", `/result`, query);
  }

  /** Settlement proof of a trade. */
  proof(tradeId: string): Promise<TradeProofBody> {
    return this.call("GET", `/proof/${encodeURIComponent(tradeId)}`);
  }

  /** Can this wallet bet? */
  readiness(address: string): Promise<ReadinessBody> {
    return this.call("GET", `/wallet/${encodeURIComponent(address)}/readiness`);
  }

  /** Platform statistics. */
  stats(): Promise<StatsBody> {
    return this.call("GET", `/stats`);
  }

  /** Liveness and trading status. */
  health(): Promise<HealthBody> {
    return this.call("GET", `/health`);
  }

  /** Onboarding in six steps. */
  gettingStarted(): Promise<GettingStarted> {
    return this.call("GET", `/getting-started`);
  }

  /** A wallet's events in order. */
  replay(query: { wallet?: string; fromSeq?: number; limit?: number } = {}): Promise<ReplayBody> {
    return this.call("GET", `/events/replay`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a wallet's markets ended. */
  resolved(query: { wallet?: string; since?: string; limit?: number } = {}): Promise<ResolvedBody> {
    return this.call("GET", `/resolved`, { ...query, wallet: this.own(query.wallet) });
  }

  /** How a webhook stands. */
  webhook(id: string): Promise<WebhookBody> {
    return this.call("GET", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Remove a webhook. */
  deleteWebhook(id: string): Promise<DeletedBody> {
    return this.call("DELETE", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Send a test event. */
  testWebhook(id: string): Promise<TestBody> {
    return this.call("POST", `/webhooks/${encodeURIComponent(id)}/test`);
  }
}

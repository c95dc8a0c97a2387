// The operations of the API that are a single request.

import type { AgentDeletedAnswer, AgentDiscoverAnswer, AgentGettingStarted, AgentHealthAnswer, AgentMarkets, AgentOneMarket, AgentPositionsAnswer, AgentQuoteAnswer, AgentReadinessAnswer, AgentReplayAnswer, AgentResearchAnswer, AgentResolvedAnswer, AgentResultAnswer, AgentSentimentAnswer, AgentStatsAnswer, AgentTestAnswer, AgentTradeProofAnswer, AgentWebhookAnswer } from "./models.js";

export type Query = Record<string, string | number | boolean | undefined>;

/** The operations as methods. By default, `wallet` is the client's own wallet. */
export abstract class Operations {
  protected abstract call<T>(method: string, path: string, query?: Query): Promise<T>;
  protected abstract own(wallet: string | undefined): string | undefined;

  /** Lists tradeable markets. */
  markets(query: { status?: string; type?: string; token?: string; ids?: string; limit?: number; cursor?: string } = {}): Promise<AgentMarkets> {
    return this.call("GET", `/markets`, query);
  }

  /** Returns one market. */
  market(id: string): Promise<AgentOneMarket> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}`);
  }

  /** Returns everything known about a market: rules, odds history, readings. */
  research(id: string): Promise<AgentResearchAnswer> {
    return this.call("GET", `/markets/${encodeURIComponent(id)}/research`);
  }

  /** Finds markets by free text or by a social post. */
  discover(query: { q?: string; post?: string; limit?: number } = {}): Promise<AgentDiscoverAnswer> {
    return this.call("GET", `/discover`, query);
  }

  /** Returns the crowd's view of a token. */
  sentiment(query: { token: string }): Promise<AgentSentimentAnswer> {
    return this.call("GET", `/sentiment`, query);
  }

  /** Prices a bet. */
  quote(query: { marketId: string; side?: string; sizeUsd?: number; wallet?: string }): Promise<AgentQuoteAnswer> {
    return this.call("GET", `/quote`, { ...query, wallet: this.own(query.wallet) });
  }

  /** Lists a wallet's positions, newest first. */
  positions(query: { wallet?: string; limit?: number; cursor?: string } = {}): Promise<AgentPositionsAnswer> {
    return this.call("GET", `/positions`, { ...query, wallet: this.own(query.wallet) });
  }

  /** Returns how a market resolved. */
  result(query: { marketId: string }): Promise<AgentResultAnswer> {
    return this.call("GET", `/result`, query);
  }

  /** Returns the settlement proof of a trade. */
  proof(tradeId: string): Promise<AgentTradeProofAnswer> {
    return this.call("GET", `/proof/${encodeURIComponent(tradeId)}`);
  }

  /** Checks whether a wallet can bet. */
  readiness(address: string): Promise<AgentReadinessAnswer> {
    return this.call("GET", `/wallet/${encodeURIComponent(address)}/readiness`);
  }

  /** Returns platform statistics. */
  stats(): Promise<AgentStatsAnswer> {
    return this.call("GET", `/stats`);
  }

  /** Returns whether the service is up and takes bets. */
  health(): Promise<AgentHealthAnswer> {
    return this.call("GET", `/health`);
  }

  /** Returns the onboarding script, in six steps. */
  gettingStarted(): Promise<AgentGettingStarted> {
    return this.call("GET", `/getting-started`);
  }

  /** Lists a wallet's events in order. */
  replay(query: { wallet?: string; fromSeq?: number; limit?: number } = {}): Promise<AgentReplayAnswer> {
    return this.call("GET", `/events/replay`, { ...query, wallet: this.own(query.wallet) });
  }

  /** Lists the results of a wallet's markets. */
  resolved(query: { wallet?: string; since?: string; limit?: number } = {}): Promise<AgentResolvedAnswer> {
    return this.call("GET", `/resolved`, { ...query, wallet: this.own(query.wallet) });
  }

  /** Returns a webhook's state. */
  webhook(id: string): Promise<AgentWebhookAnswer> {
    return this.call("GET", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Removes a webhook. */
  deleteWebhook(id: string): Promise<AgentDeletedAnswer> {
    return this.call("DELETE", `/webhooks/${encodeURIComponent(id)}`);
  }

  /** Sends a test event. */
  testWebhook(id: string): Promise<AgentTestAnswer> {
    return this.call("POST", `/webhooks/${encodeURIComponent(id)}/test`);
  }
}

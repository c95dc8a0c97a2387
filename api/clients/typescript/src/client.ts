// The client of the agent API.

import { type KeepTicket, type Placed, type Terms, type Ticket, type BetRequest, place, prepare } from "./bet.js";
import { Unreachable } from "./errors.js";
import { Cursor, events } from "./events.js";
import { Http, Backoff, READ_SECONDS, decode, refusal } from "./http.js";
import type { AgentEvent, AgentWebhookAnswer } from "./models.js";
import { Operations, type Query } from "./operations.js";
import { type Wallet, addressOf, signText } from "./wallet.js";
import { registrationMessage } from "./webhooks.js";

export interface ClientOptions {
  /** The API's origin, such as `https://vpm.example`. */
  baseUrl: string;
  /** The wallet that bets: a viem account, a key service or a contract wallet. Reads need none. */
  wallet?: Wallet;
  fetch?: typeof globalThis.fetch;
  /** How long to keep trying a bet; 120 by default. */
  patienceSeconds?: number;
  /** How long to wait after that for the bet's block to become final; an hour by default. */
  finalSeconds?: number;
  /** Addresses to require; by default, those that the service names. */
  token?: string;
  contract?: string;
  attester?: string;
}

export class Client extends Operations {
  private readonly http: Http;
  private readonly terms: Terms;
  private readonly wallet: Wallet | undefined;

  constructor(options: ClientOptions) {
    super();
    this.http = new Http(options.baseUrl.replace(/\/+$/, ""), options.fetch ?? globalThis.fetch.bind(globalThis));
    this.wallet = options.wallet;
    this.terms = {
      patienceSeconds: options.patienceSeconds ?? 120,
      finalSeconds: options.finalSeconds ?? 3600,
      token: options.token,
      contract: options.contract,
      attester: options.attester,
    };
  }

  /**
   * Makes one bet, exactly once, and verifies its receipt. `final`: whether to wait until the bet's block is final;
   * true by default. `keep` is called whenever the ticket changes, before the changed ticket is used: a saved ticket
   * survives a crash, and `place` continues it.
   */
  async bet(request: BetRequest, options: { final?: boolean; keep?: KeepTicket } = {}): Promise<Placed> {
    const ticket = await this.prepare(request);
    await options.keep?.(ticket);
    return await this.place(ticket, options);
  }

  /** Prepares the ticket of a bet without signing or paying. */
  prepare(request: BetRequest): Promise<Ticket> {
    return prepare(this.http, this.walletOrThrow(), this.terms, request);
  }

  /** Continues a ticket, new or saved. No matter how often this is called, it makes one bet. */
  place(ticket: Ticket, options: { final?: boolean; keep?: KeepTicket } = {}): Promise<Placed> {
    return place(this.http, this.walletOrThrow(), this.terms, ticket, options.final ?? true, options.keep);
  }

  /**
   * Yields a wallet's events, each once and in order, until you `break`. The stream starts at `cursor` and advances the
   * cursor. Save the cursor's `nextSeq` along with your work, and no event is missed or repeated after a restart.
   */
  events(options: { wallet?: string; cursor?: Cursor; tradeId?: string } = {}): AsyncGenerator<AgentEvent> {
    const wallet = options.wallet ?? addressOf(this.walletOrThrow());
    return events(this.http, wallet, options.cursor ?? new Cursor(), options.tradeId);
  }

  /**
   * Registers a URL for the wallet's events. Save the `secret`: it is returned only once. `service`: the API's public origin,
   * if it differs from `baseUrl`.
   */
  async registerWebhook(url: string, options: { service?: string } = {}): Promise<AgentWebhookAnswer> {
    const wallet = this.walletOrThrow();
    const message = registrationMessage(options.service ?? this.http.baseUrl, addressOf(wallet), url, new Date());
    const signature = await signText(wallet, message);
    const body = { wallet: addressOf(wallet), url, message, signature };
    return await this.once<AgentWebhookAnswer>("POST", "/webhooks", body);
  }

  protected override own(wallet: string | undefined): string | undefined {
    return wallet ?? (this.wallet === undefined ? undefined : addressOf(this.wallet));
  }

  protected override call<T>(method: string, path: string, query?: Query): Promise<T> {
    if (method !== "GET") return this.once(method, path);
    return this.http.sendWithRetries(method, path, query, new Backoff(READ_SECONDS));
  }

  private async once<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await this.http.send(method, path, { body });
    if ("lost" in response) throw new Unreachable(`${method} ${path}: ${response.lost}`);
    if (response.status < 200 || response.status >= 300) throw refusal(response);
    return decode<T>(response.text);
  }

  private walletOrThrow(): Wallet {
    if (this.wallet === undefined) throw new TypeError("This call needs a wallet: pass one to the client.");
    return this.wallet;
  }
}

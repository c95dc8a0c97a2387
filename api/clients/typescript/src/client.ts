// The agent API for one wallet.

import { type KeepTicket, type Placed, type Terms, type Ticket, type Wish, place, prepare } from "./bet.js";
import { Unreachable } from "./errors.js";
import { Cursor, events } from "./events.js";
import { Http, Patience, READ_SECONDS, decoded, refusal } from "./http.js";
import type { AgentEvent, AgentWebhookAnswer } from "./models.js";
import { Operations, type Query } from "./operations.js";
import { type Wallet, addressOf, signText } from "./wallet.js";
import { registrationMessage } from "./webhooks.js";

export interface ClientOptions {
  /** Where the API is, such as `https://vpm.example`. */
  baseUrl: string;
  /** Whose bets these are: a viem account, a key service, a contract wallet. Reads need none. */
  wallet?: Wallet;
  fetch?: typeof globalThis.fetch;
  /** How long a bet is tried; 120 by default. */
  patienceSeconds?: number;
  /** How long to wait then until its block is final; an hour by default. */
  finalSeconds?: number;
  /** Addresses to insist on, else those that the service names. */
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
   * Makes one bet, exactly once, and verifies its receipt. `final`: whether to wait until its block cannot be undone; true by
   * default. `keep` gets the ticket whenever it changes, before anything is sent with it: a stored ticket outlives this
   * process, and `place` goes on with it.
   */
  async bet(wish: Wish, options: { final?: boolean; keep?: KeepTicket } = {}): Promise<Placed> {
    const ticket = await this.prepare(wish);
    await options.keep?.(ticket);
    return await this.place(ticket, options);
  }

  /** The ticket of a bet; nothing is signed and nothing is paid. */
  prepare(wish: Wish): Promise<Ticket> {
    return prepare(this.http, this.walletOrThrow(), this.terms, wish);
  }

  /** Goes on with a ticket, new or from before. However often it is called: one bet. */
  place(ticket: Ticket, options: { final?: boolean; keep?: KeepTicket } = {}): Promise<Placed> {
    return place(this.http, this.walletOrThrow(), this.terms, ticket, options.final ?? true, options.keep);
  }

  /**
   * A wallet's events, each once and in order, for ever; `break` ends it. `cursor`: where to begin; it moves along, so keep
   * its `nextSeq` with your work and nothing is missed or seen twice across restarts either.
   */
  events(options: { wallet?: string; cursor?: Cursor; tradeId?: string } = {}): AsyncGenerator<AgentEvent> {
    const wallet = options.wallet ?? addressOf(this.walletOrThrow());
    return events(this.http, wallet, options.cursor ?? new Cursor(), options.tradeId);
  }

  /**
   * Pushes the wallet's events to a URL. Keep the `secret`: it is shown this once. `service`: the API's public origin, where
   * that is not `baseUrl`.
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
    return this.http.asked(method, path, query, new Patience(READ_SECONDS));
  }

  private async once<T>(method: string, path: string, body?: unknown): Promise<T> {
    const heard = await this.http.ask(method, path, { body });
    if ("lost" in heard) throw new Unreachable(`${method} ${path}: ${heard.lost}`);
    if (heard.status < 200 || heard.status >= 300) throw refusal(heard);
    return decoded<T>(heard.text);
  }

  private walletOrThrow(): Wallet {
    if (this.wallet === undefined) throw new TypeError("This takes a wallet: give one to the client.");
    return this.wallet;
  }
}

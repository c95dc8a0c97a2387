// One bet, exactly once: quote, lock, bound payment, trade, the same request again until its outcome is known, final, verified.
//
// Two fixed values make it happen once. The idempotency key is chosen before anything is sent, and the contract takes a
// wallet's key once. The payment's nonce is the hash of the bet, and the token takes a nonce once. If a request or an answer
// is lost, the same request is sent again; nothing here ever makes a second key.

import { type Address, type Hex, getAddress, hashTypedData } from "viem";

import { RECEIVE, authorization, betHash, boundNonce, marketKey, signedReceipt, units } from "./bound.js";
import {
  ApiError,
  NotFinal,
  OutcomeUnknown,
  PaymentRefused,
  type PaymentState,
  ReceiptWrong,
  UnexpectedAnswer,
  Unreachable,
  Untrusted,
  VpmError,
} from "./errors.js";
import { type Http, Patience, type Reply, decoded, refusal, sleep } from "./http.js";
import type {
  AgentTradeReceipt,
  AgentChallenge,
  AgentHealthAnswer,
  AgentOneMarket,
  AgentPaymentOffer,
  AgentTradeProofAnswer,
  AgentQuoteAnswer,
  AgentTradeAnswer,
} from "./models.js";
import { type Wallet, addressOf, signTypedData, signerOf } from "./wallet.js";

const SIMPLE_MAX_USD = 10;
/** Longer than the service waits for the chain, so that it is not asked twice at once. */
const TRADE_SECONDS = 45;
const ABOUT_TO_END_SECONDS = 15;
const MAX_VALIDITY_SECONDS = 600;
const MAX_QUOTES = 5;
const FINAL_PAUSE_SECONDS = 1;
/** Refusals by which the bet itself was not read. */
const HAS_NOT_LOOKED = [
  "platform_disabled",
  "not_found",
  "method_not_allowed",
  "payload_too_large",
  "unsupported_media_type",
];
/** Refusals that come before the service checks whether the bet is on the chain. */
const KNOWS_NO_BETS = [...HAS_NOT_LOOKED, "invalid_request", "invalid_wallet"];

/** A bet as it is wished for. */
export interface Wish {
  market: string;
  side: string;
  sizeUsd: number;
  /**
   * Your own key: asking for the same bet again returns the outcome of the first call, even if the market has closed since;
   * `payment` is `unknown` where the service cannot say.
   */
  idemKey?: string;
  /** What it must give at least, else a hundredth under the quote. */
  minShares?: number;
  builderCode?: Address;
  callbackUrl?: string;
  ref?: string;
}

/** A payment as it was signed, for one bet. `header`: what goes into `X-PAYMENT`. */
export interface SignedPayment {
  header: string;
  validBefore: number;
}

/**
 * A bet and all it takes to go on with it, also in another process: plain JSON, for `place`.
 *
 * A ticket with a payment lets its holder have that one bet made, and nothing else. `wasMade`: whether the service had the
 * bet on the chain when the ticket was prepared.
 */
export interface Ticket {
  marketId: string;
  marketKey: Hex;
  contract: Address;
  side: string;
  outcome: number;
  sizeUsd: number;
  minSharesOut: number;
  idemKey: string;
  wallet: Address;
  quoteId?: string;
  builderCode?: Address;
  callbackUrl?: string;
  ref?: string;
  payment?: SignedPayment;
  wasMade?: boolean;
}

/** A bet that is on the chain. */
export interface Placed {
  ticket: Ticket;
  receipt: AgentTradeReceipt;
  /** Who signed the receipt; null where the service signs none. */
  attester: string | null;
  /** Whether an earlier call had settled it. */
  replay: boolean;
  /** Only when it was waited for until final. */
  proof?: AgentTradeProofAnswer;
}

/** What a client insists on, and how long it tries. */
export interface Terms {
  patienceSeconds: number;
  finalSeconds: number;
  token: string | undefined;
  contract: string | undefined;
  attester: string | undefined;
}

export type KeepTicket = (ticket: Ticket) => unknown;

/** The trade's id. */
export const tradeId = (ticket: Ticket): Hex =>
  betHash({
    contract: ticket.contract,
    marketKey: ticket.marketKey,
    outcome: ticket.outcome,
    amount: units(ticket.sizeUsd),
    minShares: units(ticket.minSharesOut),
    wallet: ticket.wallet,
    idemKey: ticket.idemKey,
    builder: ticket.builderCode,
    ref: ticket.ref,
  });

/**
 * A quote and, above 10 USD, its lock; or what was bet before under a key of the caller's own. Nothing is signed and nothing
 * is paid.
 */
export async function prepare(http: Http, wallet: Wallet, terms: Terms, wish: Wish): Promise<Ticket> {
  const patience = new Patience(terms.patienceSeconds);
  units(wish.sizeUsd); // refuses what is no amount
  const address = addressOf(wallet);
  const before = wish.idemKey === undefined ? undefined : await madeBefore(http, address, wish, patience);
  try {
    return await ticketOf(http, address, terms, wish, before, patience);
  } catch (error) {
    if (error instanceof VpmError && before !== undefined) error.payment = "made";
    throw error;
  }
}

async function ticketOf(
  http: Http,
  address: Address,
  terms: Terms,
  wish: Wish,
  before: AgentTradeReceipt | undefined,
  patience: Patience,
): Promise<Ticket> {
  const path = `/markets/${encodeURIComponent(wish.market)}`;
  const { market } = await http.asked<AgentOneMarket>("GET", path, undefined, patience);
  const asked = { marketId: market.id, side: wish.side, sizeUsd: wish.sizeUsd, wallet: address };
  const quote = before ? undefined : (await http.asked<AgentQuoteAnswer>("GET", "/quote", asked, patience)).quote;
  const { side } = (quote ?? before)!;
  const outcome = (market.outcomes ?? []).findIndex((each) => each.key === side);
  if (outcome < 0) throw new Untrusted(`The service speaks of "${side}", which market ${market.id} does not have.`);
  if (marketKey(market.id) !== market.settlement.marketKey.toLowerCase()) {
    throw new Untrusted(`The contract's key of market ${market.id} is not the hash of its id.`);
  }
  const contract = getAddress(market.settlement.contract);
  if (terms.contract !== undefined && getAddress(terms.contract) !== contract) {
    throw new Untrusted(`The service settles by ${contract}, and you named ${terms.contract}.`);
  }
  return {
    marketId: market.id,
    marketKey: market.settlement.marketKey as Hex,
    contract,
    side,
    outcome,
    sizeUsd: wish.sizeUsd,
    minSharesOut: wish.minShares ?? quote?.suggestedMinSharesOut ?? before!.position.shares,
    idemKey: wish.idemKey ?? `bet-${crypto.randomUUID()}`,
    wallet: address,
    ...(quote !== undefined && wish.sizeUsd > SIMPLE_MAX_USD ? { quoteId: quote.quoteId } : {}),
    ...(wish.builderCode === undefined ? {} : { builderCode: wish.builderCode }),
    ...(wish.callbackUrl === undefined ? {} : { callbackUrl: wish.callbackUrl }),
    ...(wish.ref === undefined ? {} : { ref: wish.ref }),
    ...(before === undefined ? {} : { wasMade: true }),
  };
}

/**
 * Returns the receipt of the bet under the caller's key, undefined where there is none. Asked before the quote, which a
 * closed market no longer gives. Throws when it cannot find out: another bet might then be a second one.
 */
async function madeBefore(
  http: Http,
  walletAddress: Address,
  { market: marketId, side, sizeUsd, idemKey, builderCode, callbackUrl, ref }: Wish,
  patience: Patience,
): Promise<AgentTradeReceipt | undefined> {
  const body = { marketId, side, sizeUsd, idemKey, walletAddress, builderCode, callbackUrl, ref };
  for (;;) {
    const heard = await http.ask("POST", "/trade", { body, seconds: TRADE_SECONDS });
    let error: VpmError;
    try {
      if ("lost" in heard) throw new Unreachable(`What became of an earlier call could not be asked: ${heard.lost}`);
      return betUnderKey(heard);
    } catch (wrong) {
      if (!(wrong instanceof VpmError)) throw wrong;
      error = wrong;
    }
    const refused = error instanceof ApiError ? error : undefined;
    const mayPass = "lost" in heard || (refused !== undefined && refused.retriable && refused.isFinal);
    const pause = mayPass ? patience.next(refused?.retryAfter) : undefined;
    if (pause === undefined) {
      error.payment = refused?.moneyMoved ? "made" : "unknown";
      throw error;
    }
    await sleep(pause);
  }
}

/**
 * Reads an unpaid call's answer: the receipt of the bet under its key, undefined where there is none. Throws if the answer
 * shows neither: something other than the API that asks for money, or says OK, knows nothing about the bet.
 */
function betUnderKey(reply: Reply): AgentTradeReceipt | undefined {
  if (reply.status === 200) {
    const { receipt } = decoded<Partial<AgentTradeAnswer>>(reply.text);
    if (!receipt?.position) throw new UnexpectedAnswer("The answer has no receipt.");
    return receipt;
  }
  if (reply.status === 402) {
    if (challengeOf(reply).accepts.length === 0) throw new UnexpectedAnswer("The challenge offers no way to pay.");
    return undefined;
  }
  const error = refusal(reply);
  if (!isOfNoBet(error)) throw error;
  return undefined;
}

function challengeOf(reply: Reply): AgentChallenge {
  const challenge = decoded<AgentChallenge>(reply.text);
  if (!Array.isArray(challenge.accepts) || !challenge.accepts.every((each) => each?.extra?.receiveNonce)) {
    throw new UnexpectedAnswer("The answer is no challenge.");
  }
  return challenge;
}

/**
 * Whether an unpaid call is refused so that its key holds no bet: the wallet's same bet is on its way under another key, or
 * it is refused for good by who has looked.
 */
function isOfNoBet(error: ApiError): boolean {
  const isForGood = error.code !== "" && !HAS_NOT_LOOKED.includes(error.code) && !error.retriable && error.isFinal;
  return !error.moneyMoved && (error.tradeId !== undefined || isForGood);
}

/**
 * Goes on with a ticket, in any state, until its stake is on the chain, or final; or throws why not. However often it is
 * placed, it stays one bet.
 */
export async function place(
  http: Http,
  wallet: Wallet,
  terms: Terms,
  ticket: Ticket,
  final: boolean,
  keep: KeepTicket | undefined,
): Promise<Placed> {
  const bet = new Bet(http, wallet, terms, ticket, keep);
  let placed = await bet.staked();
  const ends = performance.now() / 1000 + terms.finalSeconds;
  while (final) {
    const proof = await bet.madeFinal(placed, ends);
    if (proof !== undefined) return { ...placed, proof };
    // A reorganization took its block: the same request puts it back, or says where it is now.
    await sleep(FINAL_PAUSE_SECONDS);
    placed = await bet.stakedAgain(placed);
  }
  return placed;
}

const now = (): number => Date.now() / 1000;
const same = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();

/** A ticket on its way. */
class Bet {
  // Whether a call with the payment may have arrived without our hearing what became of it; also in a process before
  // this one.
  private inTheDark: boolean;
  // How often the payment may have been sent; one that a process before this one signed counts as sent by it.
  private sent: number;
  private attester: string | null | undefined;

  constructor(
    private readonly http: Http,
    private readonly wallet: Wallet,
    private readonly terms: Terms,
    private ticket: Ticket,
    private readonly keep: KeepTicket | undefined,
  ) {
    this.inTheDark = ticket.payment !== undefined;
    this.sent = ticket.payment === undefined ? 0 : 1;
    this.attester = terms.attester;
  }

  async staked(): Promise<Placed> {
    const patience = new Patience(this.terms.patienceSeconds);
    let quotes = 0;
    let txHash: string | undefined;
    for (;;) {
      if (this.ticket.payment !== undefined) this.sent += 1;
      const heard = await this.http.ask("POST", "/trade", {
        body: this.body(),
        headers: this.ticket.payment === undefined ? {} : { "X-PAYMENT": this.ticket.payment.header },
        seconds: TRADE_SECONDS,
      });
      if ("lost" in heard) {
        this.inTheDark ||= this.ticket.payment !== undefined;
        await this.rest(patience, heard.lost, undefined, txHash);
        continue;
      }
      if (heard.status === 200) return await this.receipt(heard, patience);
      const challenge = this.challenge(heard);
      if (challenge !== undefined) {
        if (this.ticket.payment !== undefined) await this.rest(patience, this.whyRefused(challenge), undefined, txHash);
        await this.pay(challenge);
        continue;
      }
      const error = refusal(heard);
      if ((error.code === "quote_expired" || error.code === "quote_mismatch") && quotes < MAX_QUOTES) {
        quotes += 1;
        await this.lockAgain(patience, error);
        continue;
      }
      // Not the API's: of something before it, which knows nothing of the bet and may have passed it on.
      if (error.code === "" && this.ticket.payment !== undefined) this.inTheDark = true;
      else if (this.isOverForNow(error) || this.isOfATwin(error)) throw this.told(error, this.refused(error));
      txHash = error.txHash ?? txHash;
      await this.rest(patience, error.message, error.retryAfter, txHash);
    }
  }

  /** After its block is gone. As long as the service does not refuse it for good, it is as it was. */
  async stakedAgain(placed: Placed): Promise<Placed> {
    try {
      return await this.staked();
    } catch (error) {
      throw error instanceof VpmError && error.payment !== "refused" ? this.notFinal(placed, error.message) : error;
    }
  }

  /**
   * Asking again within our patience changes nothing: the bet must change, or what a block refused waits for the chain to
   * undo that block, which may take many minutes.
   */
  private isOverForNow(error: ApiError): boolean {
    return !error.retriable || (!error.isFinal && error.status < 429);
  }

  /**
   * The wallet's same bet is on its way under another key. Whether there shall be a second one is the caller's to say:
   * waiting until the first is settled would make it.
   */
  private isOfATwin(error: ApiError): boolean {
    return error.code === "rate_limited" && error.tradeId !== undefined && error.tradeId !== tradeId(this.ticket);
  }

  private body(): Record<string, unknown> {
    const { marketId, side, sizeUsd, idemKey, wallet, quoteId, minSharesOut, builderCode, callbackUrl, ref } = this.ticket;
    return {
      marketId,
      side,
      sizeUsd,
      idemKey,
      walletAddress: wallet,
      quoteId,
      minSharesOut: minSharesOut || undefined,
      builderCode,
      callbackUrl,
      ref,
    };
  }

  private async rest(patience: Patience, why: string, least?: number, txHash?: string): Promise<void> {
    const pause = patience.next(least);
    if (pause === undefined) throw this.outOfTime(why, txHash);
    await sleep(pause);
  }

  // ---------------------------------------------------------------- paying

  /**
   * Returns what the answer asks for the bet; undefined if nothing. Once a payment was sent, only a challenge for this very
   * bet counts: anything else that asks for money is not the API, and knows nothing about the bet.
   */
  private challenge(reply: Reply): AgentChallenge | undefined {
    if (reply.status !== 402) return undefined;
    try {
      const challenge = challengeOf(reply);
      if (this.ticket.payment !== undefined) this.checked(challenge);
      return challenge;
    } catch (wrong) {
      if (wrong instanceof VpmError) return undefined;
      throw wrong;
    }
  }

  /** Why a payment was answered by another challenge, if that is because its time has passed; else it is refused. */
  private whyRefused(challenge: AgentChallenge): string {
    const why = challenge.error ?? "The payment was not taken.";
    const payment = this.ticket.payment;
    if (payment !== undefined && now() < payment.validBefore - ABOUT_TO_END_SECONDS) {
      throw this.told(new PaymentRefused(why), this.atWorst());
    }
    return why;
  }

  /**
   * Signs what the challenge asks for, if that is this bet. A payment whose time has passed is signed anew with its own
   * nonce: the token takes that once, so it stays one payment.
   */
  private async pay(challenge: AgentChallenge): Promise<void> {
    const offer = this.checked(challenge);
    const until = Math.floor(now()) + Math.min(offer.maxTimeoutSeconds, MAX_VALIDITY_SECONDS);
    const nonce = boundNonce(tradeId(this.ticket));
    const signature = await signTypedData(
      this.wallet,
      authorization({
        token: getAddress(offer.asset),
        name: offer.extra.name,
        version: offer.extra.version,
        payer: this.ticket.wallet,
        to: getAddress(offer.payTo),
        value: BigInt(offer.maxAmountRequired),
        until,
        nonce,
      }),
    );
    const signed = {
      from: this.ticket.wallet,
      to: offer.payTo,
      value: offer.maxAmountRequired,
      validAfter: "0",
      validBefore: String(until),
      nonce,
    };
    const payload = { signature, authorization: signed };
    const header = btoa(JSON.stringify({ x402Version: 1, scheme: "exact", network: "base", payload }));
    await this.changed({ ...this.ticket, payment: { header, validBefore: until } });
  }

  /** The offer, if it asks for this bet's amount and for this bet alone. */
  private checked(challenge: AgentChallenge): AgentPaymentOffer {
    const offer = challenge.accepts?.[0];
    if (offer === undefined) throw this.told(new Untrusted("The challenge offers no way to pay."), "none");
    const wanted: Record<string, [string, string]> = {
      scheme: [offer.scheme, "exact"],
      network: [offer.network, "base"],
      maxAmountRequired: [offer.maxAmountRequired, String(units(this.ticket.sizeUsd))],
      payTo: [offer.payTo, this.ticket.contract],
      asset: [offer.asset, this.terms.token ?? offer.asset],
      "extra.receivePrimaryType": [offer.extra.receivePrimaryType, RECEIVE],
      "extra.receiveNonce": [offer.extra.receiveNonce, boundNonce(tradeId(this.ticket))],
    };
    for (const [name, [given, ours]] of Object.entries(wanted)) {
      if (same(String(given), ours)) continue;
      const sentence = `The challenge's ${name} is ${given}; for this bet it is ${ours}. Nothing was signed.`;
      throw this.told(new Untrusted(sentence), "none");
    }
    return offer;
  }

  /**
   * Another lock for the same bet: its limits, its hash and with it the payment stay as they are. `refusal`: what the bet
   * was refused with, which alone says anything of the payment where there is no other lock.
   */
  private async lockAgain(patience: Patience, refusal: ApiError): Promise<void> {
    const { marketId, side, sizeUsd, wallet } = this.ticket;
    try {
      const { quote } = await this.http.asked<AgentQuoteAnswer>("GET", "/quote", { marketId, side, sizeUsd, wallet }, patience);
      await this.changed({ ...this.ticket, quoteId: quote.quoteId });
    } catch (error) {
      if (error instanceof Unreachable) throw this.outOfTime(error.message, undefined);
      throw error instanceof VpmError ? this.told(error, this.refused(refusal)) : error;
    }
  }

  private async changed(ticket: Ticket): Promise<void> {
    this.ticket = ticket;
    await this.keep?.(ticket);
  }

  // ---------------------------------------------------------------- what came of it

  /** The receipt, if it is this bet's and the service's key signed it. */
  private async receipt(reply: Reply, patience: Patience): Promise<Placed> {
    let body: AgentTradeAnswer;
    try {
      body = decoded<AgentTradeAnswer>(reply.text);
    } catch (error) {
      throw error instanceof VpmError ? this.told(error, this.ticket.payment ? "unknown" : "none") : error;
    }
    this.inTheDark = this.ticket.payment !== undefined; // it was taken: from here on only a verdict says otherwise
    try {
      this.check(body.receipt, body.replay);
      if (this.attester === undefined) {
        this.attester = (await this.http.asked<AgentHealthAnswer>("GET", "/health", undefined, patience)).health.attester;
      }
      await this.checkSignature(body, this.attester);
      return { ticket: this.ticket, receipt: body.receipt, attester: this.attester, replay: body.replay };
    } catch (error) {
      throw error instanceof VpmError ? this.told(error, "made") : error;
    }
  }

  private check(receipt: AgentTradeReceipt, replay: boolean): void {
    const { ticket } = this;
    const wanted: Record<string, [unknown, unknown]> = {
      simulated: [receipt.simulated, false],
      marketId: [receipt.marketId, ticket.marketId],
      side: [receipt.side, ticket.side],
      sizeUsd: [receipt.sizeUsd, ticket.sizeUsd],
      intentHash: [receipt.intentHash, receipt.tradeId],
    };
    const ours = tradeId(ticket);
    // A replay may be of the same key with other limits: it is this key's one bet.
    if (receipt.tradeId !== ours && !replay) {
      throw new ReceiptWrong(`The receipt is of trade ${receipt.tradeId}, and the bet is ${ours}.`);
    }
    if (receipt.tradeId === ours && receipt.position.shares < ticket.minSharesOut) {
      throw new ReceiptWrong(`It has ${receipt.position.shares} shares, and at least ${ticket.minSharesOut} were due.`);
    }
    for (const [name, [given, due]] of Object.entries(wanted)) {
      if (given !== due) throw new ReceiptWrong(`The receipt's ${name} is ${given}, and the bet's ${due}.`);
    }
  }

  private async checkSignature(body: AgentTradeAnswer, attester: string | null): Promise<void> {
    if (attester === null) return;
    type Statement = { payload?: Record<string, unknown>; signature?: Hex };
    const extension = body.extensions?.["offer-receipt"] as { info?: { receipt?: Statement } } | undefined;
    const { payload, signature } = extension?.info?.receipt ?? {};
    if (payload === undefined || signature === undefined) throw new ReceiptWrong("The receipt is not signed.");
    const trade = String(payload["resourceUrl"]).split("#").at(-1);
    const isOurs =
      payload["transaction"] === body.receipt.txHash &&
      same(String(payload["payer"]), this.ticket.wallet) &&
      trade === body.receipt.tradeId;
    if (!isOurs) throw new ReceiptWrong("The signed receipt is of another trade.");
    let digest: Hex;
    try {
      digest = hashTypedData(signedReceipt(payload));
    } catch (error) {
      throw new ReceiptWrong(`The receipt's signature cannot be read: ${String(error)}`);
    }
    const signer = await signerOf(digest, signature);
    if (signer === undefined || !same(signer, attester)) {
      throw new ReceiptWrong(`The receipt is signed by ${signer}, and not by ${attester}.`);
    }
  }

  /** The proof once its block is final; undefined when the stake is not where the receipt says any more. */
  async madeFinal(placed: Placed, ends: number): Promise<AgentTradeProofAnswer | undefined> {
    let why = "there was no time to ask";
    for (let left; (left = ends - performance.now() / 1000) > 0; ) {
      let proof: AgentTradeProofAnswer;
      try {
        const path = `/proof/${placed.receipt.tradeId}`;
        proof = await this.http.asked<AgentTradeProofAnswer>("GET", path, undefined, new Patience(left));
      } catch (error) {
        if (error instanceof ApiError && error.code === "not_found") return undefined;
        if (error instanceof ApiError && error.code === "") {
          why = error.message; // of something before the API: it is asked again
          await sleep(FINAL_PAUSE_SECONDS);
          continue;
        }
        throw error instanceof VpmError ? this.notFinal(placed, error.message) : error;
      }
      if (proof.settlement.txHash !== placed.receipt.txHash) return undefined;
      if (proof.settlement.status === "final") {
        this.checkProof(proof);
        return proof;
      }
      why = `its block is ${proof.settlement.status}`;
      await sleep(FINAL_PAUSE_SECONDS);
    }
    throw this.notFinal(placed, why);
  }

  private checkProof(proof: AgentTradeProofAnswer): void {
    const { ticket } = this;
    const isOurs =
      proof.market.id === ticket.marketId &&
      proof.position.side === ticket.side &&
      proof.position.sizeUsd === ticket.sizeUsd &&
      same(proof.position.walletAddress, ticket.wallet);
    if (!isOurs) throw this.told(new ReceiptWrong("The proof is of another bet."), "made");
  }

  private notFinal(placed: Placed, why: string): VpmError {
    return this.told(new NotFinal(`The stake is on the chain and not final: ${why}.`, placed), "made");
  }

  // ---------------------------------------------------------------- what is known of the payment

  /**
   * Returns the payment's state after a final refusal. An earlier call that got no answer may still be at work until the
   * payment expires.
   */
  private atWorst(): PaymentState {
    const { payment } = this.ticket;
    if (payment === undefined) return "none";
    return this.inTheDark && now() < payment.validBefore ? "unknown" : "refused";
  }

  /** What a refusal says itself: `payment_invalid` is about a payment that is over, one way or the other. */
  private refused(error: ApiError): PaymentState {
    if (error.moneyMoved) return "made";
    if (this.ticket.payment === undefined) return "none";
    if (!error.isFinal || (this.sent > 1 && KNOWS_NO_BETS.includes(error.code))) return "unknown";
    return error.moneyMoved === undefined ? this.atWorst() : "refused";
  }

  private told<E extends VpmError>(error: E, payment: PaymentState): E {
    error.payment = payment === "none" && this.ticket.wasMade ? "made" : payment;
    error.ticket = this.ticket;
    error.signedUntil = this.ticket.payment?.validBefore;
    return error;
  }

  private outOfTime(why: string, txHash: string | undefined): VpmError {
    if (this.ticket.payment === undefined) {
      return this.told(new Unreachable(`The bet could not be offered: ${why}`), "none");
    }
    const error = new OutcomeUnknown(`The bet was paid for and its outcome is not known: ${why}`);
    error.txHash = txHash;
    return this.told(error, "unknown");
  }
}

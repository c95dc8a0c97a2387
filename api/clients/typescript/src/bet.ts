// One bet, exactly once: get a quote, sign a bound payment, trade, retry until the outcome is known, verify the receipt and
// wait until the block is final.
//
// Two fixed values make a bet happen at most once. The idempotency key is chosen before anything is sent, and the contract
// accepts a wallet's key once. The payment's nonce is the hash of the bet, and the token accepts a nonce once. If a request
// or a response is lost, the same request is sent again, and no second key is ever created.

import { type Address, type Hex, getAddress, hashTypedData } from "viem";

import { RECEIVE, authorization, betHash, boundNonce, marketKey, signedReceipt, units } from "./typedData.js";
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
import { type Http, Backoff, type Reply, decode, refusal, sleep } from "./http.js";
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
/** The timeout of a trade. The service waits less for the chain, so a retry does not overlap with the first request. */
const TRADE_SECONDS = 45;
const ABOUT_TO_END_SECONDS = 15;
const MAX_VALIDITY_SECONDS = 600;
const MAX_QUOTES = 5;
const FINAL_PAUSE_SECONDS = 1;
/** Refusals made without reading the bet. */
const BET_NOT_READ = [
  "platform_disabled",
  "not_found",
  "method_not_allowed",
  "payload_too_large",
  "unsupported_media_type",
];
/** Refusals made before the service checks whether the bet is on the chain. */
const BET_NOT_LOOKED_UP = [...BET_NOT_READ, "invalid_request", "invalid_wallet"];

/** A bet to make. */
export interface BetRequest {
  market: string;
  side: string;
  sizeUsd: number;
  /**
   * Your own key. Making the same bet again returns the outcome of the first call, even if the market has closed since.
   * If the service does not know that outcome, the error's `payment` is `unknown`.
   */
  idemKey?: string;
  /** The fewest shares to accept, by default 1% fewer than quoted. */
  minShares?: number;
  builderCode?: Address;
  callbackUrl?: string;
  ref?: string;
}

/** A signed payment for one bet. `header`: the value of `X-PAYMENT`. */
export interface SignedPayment {
  header: string;
  validBefore: number;
}

/**
 * A bet with everything that is needed to continue it with `place`, even in another process. A ticket is plain JSON.
 *
 * A ticket with a payment lets its holder place that one bet and nothing else. `wasMade`: whether the bet was already
 * on the chain when the ticket was prepared.
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
  /** The address that signed the receipt; null if the service does not sign. */
  attester: string | null;
  /** Whether an earlier call had settled the bet. */
  replay: boolean;
  /** The proof, if the bet's block is final. */
  proof?: AgentTradeProofAnswer;
}

/** A client's timeouts and the addresses it requires. */
export interface Terms {
  patienceSeconds: number;
  finalSeconds: number;
  token: string | undefined;
  contract: string | undefined;
  attester: string | undefined;
}

export type KeepTicket = (ticket: Ticket) => unknown;

/** The trade id, which is the hash of the bet. */
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
 * Prepares the ticket of a bet without signing or paying. The ticket comes from a quote, which is locked above 10 USD,
 * or from an earlier bet with the caller's `idemKey`.
 */
export async function prepare(http: Http, wallet: Wallet, terms: Terms, request: BetRequest): Promise<Ticket> {
  const backoff = new Backoff(terms.patienceSeconds);
  units(request.sizeUsd); // throws if it is not an amount
  const address = addressOf(wallet);
  const before = request.idemKey === undefined ? undefined : await findEarlierBet(http, address, request, backoff);
  try {
    return await ticketOf(http, address, terms, request, before, backoff);
  } catch (error) {
    if (error instanceof VpmError && before !== undefined) error.payment = "made";
    throw error;
  }
}

async function ticketOf(
  http: Http,
  address: Address,
  terms: Terms,
  request: BetRequest,
  before: AgentTradeReceipt | undefined,
  backoff: Backoff,
): Promise<Ticket> {
  const path = `/markets/${encodeURIComponent(request.market)}`;
  const { market } = await http.sendWithRetries<AgentOneMarket>("GET", path, undefined, backoff);
  const asked = { marketId: market.id, side: request.side, sizeUsd: request.sizeUsd, wallet: address };
  const quote = before ? undefined : (await http.sendWithRetries<AgentQuoteAnswer>("GET", "/quote", asked, backoff)).quote;
  const { side } = (quote ?? before)!;
  const outcome = (market.outcomes ?? []).findIndex((each) => each.key === side);
  if (outcome < 0) throw new Untrusted(`The service names the side "${side}", which market ${market.id} does not have.`);
  if (marketKey(market.id) !== market.settlement.marketKey.toLowerCase()) {
    throw new Untrusted(`The contract's key for market ${market.id} is not the hash of its id.`);
  }
  const contract = getAddress(market.settlement.contract);
  if (terms.contract !== undefined && getAddress(terms.contract) !== contract) {
    throw new Untrusted(`The service settles through ${contract}, but you require ${terms.contract}.`);
  }
  return {
    marketId: market.id,
    marketKey: market.settlement.marketKey as Hex,
    contract,
    side,
    outcome,
    sizeUsd: request.sizeUsd,
    minSharesOut: request.minShares ?? quote?.suggestedMinSharesOut ?? before!.position.shares,
    idemKey: request.idemKey ?? `bet-${crypto.randomUUID()}`,
    wallet: address,
    ...(quote !== undefined && request.sizeUsd > SIMPLE_MAX_USD ? { quoteId: quote.quoteId } : {}),
    ...(request.builderCode === undefined ? {} : { builderCode: request.builderCode }),
    ...(request.callbackUrl === undefined ? {} : { callbackUrl: request.callbackUrl }),
    ...(request.ref === undefined ? {} : { ref: request.ref }),
    ...(before === undefined ? {} : { wasMade: true }),
  };
}

/**
 * Returns the receipt of an earlier bet with the caller's key, or undefined. This runs before the quote, since a closed
 * market refuses quotes. Throws if that is unknown: a new bet might then be a second one.
 */
async function findEarlierBet(
  http: Http,
  walletAddress: Address,
  { market: marketId, side, sizeUsd, idemKey, builderCode, callbackUrl, ref }: BetRequest,
  backoff: Backoff,
): Promise<AgentTradeReceipt | undefined> {
  const body = { marketId, side, sizeUsd, idemKey, walletAddress, builderCode, callbackUrl, ref };
  for (;;) {
    const response = await http.send("POST", "/trade", { body, seconds: TRADE_SECONDS });
    let error: VpmError;
    try {
      if ("lost" in response) {
        throw new Unreachable(`The outcome of an earlier call cannot be determined: ${response.lost}`);
      }
      return betUnderKey(response);
    } catch (wrong) {
      if (!(wrong instanceof VpmError)) throw wrong;
      error = wrong;
    }
    const refused = error instanceof ApiError ? error : undefined;
    const mayPass = "lost" in response || (refused !== undefined && refused.retriable && refused.isFinal);
    const pause = mayPass ? backoff.next(refused?.retryAfter) : undefined;
    if (pause === undefined) {
      error.payment = refused?.moneyMoved ? "made" : "unknown";
      throw error;
    }
    await sleep(pause);
  }
}

/**
 * Returns the receipt in the reply to an unpaid call, or undefined if there is no bet with this key.
 * Throws if the reply proves neither: a proxy's 200 or 402 says nothing about the bet.
 */
function betUnderKey(reply: Reply): AgentTradeReceipt | undefined {
  if (reply.status === 200) {
    const { receipt } = decode<Partial<AgentTradeAnswer>>(reply.text);
    if (!receipt?.position) throw new UnexpectedAnswer("The response has no receipt.");
    return receipt;
  }
  if (reply.status === 402) {
    if (challengeOf(reply).accepts.length === 0) throw new UnexpectedAnswer("The challenge offers no way to pay.");
    return undefined;
  }
  const error = refusal(reply);
  if (!showsNoBet(error)) throw error;
  return undefined;
}

function challengeOf(reply: Reply): AgentChallenge {
  const challenge = decode<AgentChallenge>(reply.text);
  if (!Array.isArray(challenge.accepts) || !challenge.accepts.every((each) => each?.extra?.receiveNonce)) {
    throw new UnexpectedAnswer("The response is not a payment challenge.");
  }
  return challenge;
}

/**
 * Returns whether the refusal of an unpaid call proves that there is no bet with this key. It does if the same bet is
 * in flight under another key, or if the service read the bet and refused it for good.
 */
function showsNoBet(error: ApiError): boolean {
  const isForGood = error.code !== "" && !BET_NOT_READ.includes(error.code) && !error.retriable && error.isFinal;
  return !error.moneyMoved && (error.tradeId !== undefined || isForGood);
}

/**
 * Continues a ticket, new or saved, until its stake is on the chain (or, with `final`, until its block is final).
 * Throws if the bet is refused. No matter how often this is called, it makes one bet.
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
  let placed = await bet.submit();
  const ends = performance.now() / 1000 + terms.finalSeconds;
  while (final) {
    const proof = await bet.waitUntilFinal(placed, ends);
    if (proof !== undefined) return { ...placed, proof };
    // A reorganization removed its block: the same request places the stake again or returns its new block.
    await sleep(FINAL_PAUSE_SECONDS);
    placed = await bet.resubmit(placed);
  }
  return placed;
}

const now = (): number => Date.now() / 1000;
const same = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();

/** A ticket being placed. */
class Bet {
  // Whether a call with the payment may have arrived although its response was lost, even in an earlier process.
  private mayBeInFlight: boolean;
  // How often the payment may have been sent. A payment signed by an earlier process counts as sent once.
  private sent: number;
  private attester: string | null | undefined;

  constructor(
    private readonly http: Http,
    private readonly wallet: Wallet,
    private readonly terms: Terms,
    private ticket: Ticket,
    private readonly keep: KeepTicket | undefined,
  ) {
    this.mayBeInFlight = ticket.payment !== undefined;
    this.sent = ticket.payment === undefined ? 0 : 1;
    this.attester = terms.attester;
  }

  async submit(): Promise<Placed> {
    const backoff = new Backoff(this.terms.patienceSeconds);
    let quotes = 0;
    let txHash: string | undefined;
    for (;;) {
      if (this.ticket.payment !== undefined) this.sent += 1;
      const response = await this.http.send("POST", "/trade", {
        body: this.body(),
        headers: this.ticket.payment === undefined ? {} : { "X-PAYMENT": this.ticket.payment.header },
        seconds: TRADE_SECONDS,
      });
      if ("lost" in response) {
        this.mayBeInFlight ||= this.ticket.payment !== undefined;
        await this.wait(backoff, response.lost, undefined, txHash);
        continue;
      }
      if (response.status === 200) return await this.acceptReceipt(response, backoff);
      const challenge = this.challenge(response);
      if (challenge !== undefined) {
        if (this.ticket.payment !== undefined) await this.wait(backoff, this.reasonIfExpired(challenge), undefined, txHash);
        await this.signPayment(challenge);
        continue;
      }
      const error = refusal(response);
      if ((error.code === "quote_expired" || error.code === "quote_mismatch") && quotes < MAX_QUOTES) {
        quotes += 1;
        await this.renewLock(backoff, error);
        continue;
      }
      // Without a code it came from a proxy, which may have passed the bet on to the API.
      if (error.code === "" && this.ticket.payment !== undefined) this.mayBeInFlight = true;
      else if (this.isSettledForNow(error) || this.isDuplicate(error)) throw this.withPayment(error, this.paymentState(error));
      txHash = error.txHash ?? txHash;
      await this.wait(backoff, error.message, error.retryAfter, txHash);
    }
  }

  /**
   * Sends the bet again after its block was removed. Unless the service refuses the bet for good, the bet still counts
   * as made and not final.
   */
  async resubmit(placed: Placed): Promise<Placed> {
    try {
      return await this.submit();
    } catch (error) {
      throw error instanceof VpmError && error.payment !== "refused" ? this.notFinal(placed, error.message) : error;
    }
  }

  /**
   * Returns whether retrying now is pointless. Either the bet must change, or a block refused the bet, and it may take
   * many minutes until the chain undoes that block.
   */
  private isSettledForNow(error: ApiError): boolean {
    return !error.retriable || (!error.isFinal && error.status < 429);
  }

  /**
   * Returns whether the same bet of this wallet is in flight under another key. The caller decides whether to make a
   * second bet. Retrying until the first bet is settled would make a second one.
   */
  private isDuplicate(error: ApiError): boolean {
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

  private async wait(backoff: Backoff, why: string, least?: number, txHash?: string): Promise<void> {
    const pause = backoff.next(least);
    if (pause === undefined) throw this.outOfTime(why, txHash);
    await sleep(pause);
  }

  // ---------------------------------------------------------------- paying

  /**
   * Returns the payment challenge in a response, or undefined. Once a payment was sent, only a challenge for this very
   * bet counts. Any other challenge did not come from the API and says nothing about the bet.
   */
  private challenge(reply: Reply): AgentChallenge | undefined {
    if (reply.status !== 402) return undefined;
    try {
      const challenge = challengeOf(reply);
      if (this.ticket.payment !== undefined) this.checkChallenge(challenge);
      return challenge;
    } catch (wrong) {
      if (wrong instanceof VpmError) return undefined;
      throw wrong;
    }
  }

  /**
   * Returns why the service asks for another payment if this one has expired. Otherwise the service refused it:
   * throws PaymentRefused.
   */
  private reasonIfExpired(challenge: AgentChallenge): string {
    const why = challenge.error ?? "The payment was not accepted.";
    const payment = this.ticket.payment;
    if (payment !== undefined && now() < payment.validBefore - ABOUT_TO_END_SECONDS) {
      throw this.withPayment(new PaymentRefused(why), this.stateAfterRefusal());
    }
    return why;
  }

  /**
   * Signs the payment if the challenge is for this bet. An expired payment is signed again with the same nonce. The
   * token accepts a nonce once, so it remains one payment.
   */
  private async signPayment(challenge: AgentChallenge): Promise<void> {
    const offer = this.checkChallenge(challenge);
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
    await this.updateTicket({ ...this.ticket, payment: { header, validBefore: until } });
  }

  /** Returns the offer if it asks for this bet's amount and is bound to this bet; otherwise throws Untrusted. */
  private checkChallenge(challenge: AgentChallenge): AgentPaymentOffer {
    const offer = challenge.accepts?.[0];
    if (offer === undefined) throw this.withPayment(new Untrusted("The challenge offers no way to pay."), "none");
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
      const sentence = `The challenge's ${name} is ${given}; this bet needs ${ours}. Nothing was signed.`;
      throw this.withPayment(new Untrusted(sentence), "none");
    }
    return offer;
  }

  /**
   * Gets a new price lock for the same bet. The bet's limits, hash and payment stay the same. `refusal`: the error that
   * made a new lock necessary. If the service gives no new lock, the payment's state follows from that error.
   */
  private async renewLock(backoff: Backoff, refusal: ApiError): Promise<void> {
    const { marketId, side, sizeUsd, wallet } = this.ticket;
    try {
      const query = { marketId, side, sizeUsd, wallet };
      const { quote } = await this.http.sendWithRetries<AgentQuoteAnswer>("GET", "/quote", query, backoff);
      await this.updateTicket({ ...this.ticket, quoteId: quote.quoteId });
    } catch (error) {
      if (error instanceof Unreachable) throw this.outOfTime(error.message, undefined);
      throw error instanceof VpmError ? this.withPayment(error, this.paymentState(refusal)) : error;
    }
  }

  private async updateTicket(ticket: Ticket): Promise<void> {
    this.ticket = ticket;
    await this.keep?.(ticket);
  }

  // ---------------------------------------------------------------- the receipt

  /** Returns the bet with its receipt, after checking that the receipt is for this bet and signed by the service. */
  private async acceptReceipt(reply: Reply, backoff: Backoff): Promise<Placed> {
    let body: AgentTradeAnswer;
    try {
      body = decode<AgentTradeAnswer>(reply.text);
    } catch (error) {
      throw error instanceof VpmError ? this.withPayment(error, this.ticket.payment ? "unknown" : "none") : error;
    }
    this.mayBeInFlight = this.ticket.payment !== undefined; // the service accepted it
    try {
      this.checkReceipt(body.receipt, body.replay);
      if (this.attester === undefined) {
        const { health } = await this.http.sendWithRetries<AgentHealthAnswer>("GET", "/health", undefined, backoff);
        this.attester = health.attester;
      }
      await this.checkSignature(body, this.attester);
      return { ticket: this.ticket, receipt: body.receipt, attester: this.attester, replay: body.replay };
    } catch (error) {
      throw error instanceof VpmError ? this.withPayment(error, "made") : error;
    }
  }

  private checkReceipt(receipt: AgentTradeReceipt, replay: boolean): void {
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
      throw new ReceiptWrong(`The receipt is for trade ${receipt.tradeId}, but the bet is ${ours}.`);
    }
    if (receipt.tradeId === ours && receipt.position.shares < ticket.minSharesOut) {
      const { shares } = receipt.position;
      throw new ReceiptWrong(`The receipt has ${shares} shares; at least ${ticket.minSharesOut} were required.`);
    }
    for (const [name, [given, due]] of Object.entries(wanted)) {
      if (given !== due) throw new ReceiptWrong(`The receipt's ${name} is ${given}; the bet's is ${due}.`);
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
    if (!isOurs) throw new ReceiptWrong("The signed receipt is for another trade.");
    let digest: Hex;
    try {
      digest = hashTypedData(signedReceipt(payload));
    } catch (error) {
      throw new ReceiptWrong(`The receipt's signature cannot be read: ${String(error)}`);
    }
    const signer = await signerOf(digest, signature);
    if (signer === undefined || !same(signer, attester)) {
      throw new ReceiptWrong(`The receipt is signed by ${signer}, not by ${attester}.`);
    }
  }

  /**
   * Waits until the bet's block is final, and returns the proof. Returns undefined if the stake is no longer in the
   * receipt's transaction.
   */
  async waitUntilFinal(placed: Placed, ends: number): Promise<AgentTradeProofAnswer | undefined> {
    let why = "there was no time left to check";
    for (let left; (left = ends - performance.now() / 1000) > 0; ) {
      let proof: AgentTradeProofAnswer;
      try {
        const path = `/proof/${placed.receipt.tradeId}`;
        proof = await this.http.sendWithRetries<AgentTradeProofAnswer>("GET", path, undefined, new Backoff(left));
      } catch (error) {
        if (error instanceof ApiError && error.code === "not_found") return undefined;
        if (error instanceof ApiError && error.code === "") {
          why = error.message; // from a proxy: try again
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
    if (!isOurs) throw this.withPayment(new ReceiptWrong("The proof is for another bet."), "made");
  }

  private notFinal(placed: Placed, why: string): VpmError {
    return this.withPayment(new NotFinal(`The stake is on the chain but not final: ${why}.`, placed), "made");
  }

  // ---------------------------------------------------------------- the state of the payment

  /**
   * Returns the payment's state after a final refusal. An earlier call without a response may still succeed until the payment
   * expires.
   */
  private stateAfterRefusal(): PaymentState {
    const { payment } = this.ticket;
    if (payment === undefined) return "none";
    return this.mayBeInFlight && now() < payment.validBefore ? "unknown" : "refused";
  }

  /** Returns the payment's state that follows from a refusal. */
  private paymentState(error: ApiError): PaymentState {
    if (error.moneyMoved) return "made";
    if (this.ticket.payment === undefined) return "none";
    if (!error.isFinal || (this.sent > 1 && BET_NOT_LOOKED_UP.includes(error.code))) return "unknown";
    return error.moneyMoved === undefined ? this.stateAfterRefusal() : "refused";
  }

  private withPayment<E extends VpmError>(error: E, payment: PaymentState): E {
    error.payment = payment === "none" && this.ticket.wasMade ? "made" : payment;
    error.ticket = this.ticket;
    error.signedUntil = this.ticket.payment?.validBefore;
    return error;
  }

  private outOfTime(why: string, txHash: string | undefined): VpmError {
    if (this.ticket.payment === undefined) {
      return this.withPayment(new Unreachable(`The bet could not be placed: ${why}`), "none");
    }
    const error = new OutcomeUnknown(`The payment was sent, but the outcome is unknown: ${why}`);
    error.txHash = txHash;
    return this.withPayment(error, "unknown");
  }
}

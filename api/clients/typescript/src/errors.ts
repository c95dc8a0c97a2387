// What can go wrong, as types. Each error says whether money may have moved.

import type { Placed, Ticket } from "./bet.js";
import type { ErrorCode } from "./models.js";

/**
 * What is known of the payment when an error is thrown.
 *
 * - `none`: nothing was signed, and no earlier call of the same key is known to have made the bet.
 * - `refused`: it was signed and sent, and the service refused it: no money moved. Until `signedUntil`, a holder of the
 *   signature could still send it to the contract, for this one bet and never twice.
 * - `unknown`: it was signed and sent, now or by an earlier call, and its outcome is not known. Go on with
 *   `place(error.ticket)`; where there is no ticket, call `bet` again with the same key.
 * - `made`: the stake is on the chain, or the money arrived and is booked or given back.
 */
export type PaymentState = "none" | "refused" | "unknown" | "made";

/** Anything this library throws. `ticket`: the bet it is about, if it is about one. */
export class VpmError extends Error {
  payment: PaymentState = "none";
  ticket: Ticket | undefined;
  signedUntil: number | undefined;

  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }

  get mayHavePaid(): boolean {
    return this.payment === "unknown" || this.payment === "made";
  }
}

/** No answer in all the time there was, to a call that pays nothing. */
export class Unreachable extends VpmError {}

/** An answer that is not what the API documents. */
export class UnexpectedAnswer extends VpmError {}

/** An API of another version than this library was made for. */
export class WrongVersion extends VpmError {}

/** A challenge that asks for something else than the bet; it was not signed. */
export class Untrusted extends VpmError {}

/** A payment that the service did not accept, with its sentence. */
export class PaymentRefused extends VpmError {}

/**
 * A bet whose payment was sent and whose outcome did not arrive in time. `place(error.ticket)` asks again with the same key
 * and the same payment, so it stays one bet.
 */
export class OutcomeUnknown extends VpmError {
  txHash: string | undefined;
}

/** A stake that is on the chain in a block that is not final yet. */
export class NotFinal extends VpmError {
  constructor(
    message: string,
    readonly placed: Placed,
  ) {
    super(message);
  }
}

/** A receipt that is not of this bet, or not signed by the service's key. */
export class ReceiptWrong extends VpmError {}

/** A delivery that is not the service's, too old, or seen before. */
export class WebhookRefused extends VpmError {}

/** What is wrong with one field of a request. */
export interface Issue {
  field: string;
  problem: string;
}

/** A refusal of the API. What did not come from the API itself, such as a proxy's, has an empty code. */
export class ApiError extends VpmError {
  readonly code: ErrorCode | "";
  readonly hint: string | undefined;
  readonly docsUrl: string | undefined;
  readonly retriable: boolean;
  readonly requestId: string | undefined;
  readonly txHash: string | undefined;
  readonly tradeId: string | undefined;
  /** Said of a payment that is over: whether it brought anything anywhere. */
  readonly moneyMoved: boolean | undefined;
  /** False where a block refused the bet that the chain may still undo: then it may be taken after all. */
  readonly isFinal: boolean;
  readonly issues: readonly Issue[];
  readonly retryAfter: number | undefined;

  constructor(
    readonly status: number,
    headers: Headers,
    readonly body: Readonly<Record<string, unknown>>,
  ) {
    const text = (name: string): string | undefined =>
      typeof body[name] === "string" ? (body[name] as string) : undefined;
    const code = text("error") ?? "";
    super(`${code}: ${text("message") ?? `status ${status}`}${text("hint") ? ` ${text("hint")}` : ""}`);
    this.code = code;
    this.hint = text("hint");
    this.docsUrl = text("docsUrl");
    // A 408 is a call that did not arrive in time, so it was not processed: retriable, even if its code usually is not.
    const mayPass = typeof body["retriable"] === "boolean" ? body["retriable"] : status === 429 || status >= 500;
    this.retriable = status === 408 || mayPass;
    this.requestId = text("requestId") ?? headers.get("x-request-id") ?? undefined;
    this.txHash = text("txHash");
    this.tradeId = text("tradeId");
    this.moneyMoved = typeof body["moneyMoved"] === "boolean" ? body["moneyMoved"] : undefined;
    this.isFinal = body["final"] !== false;
    this.issues = Array.isArray(body["issues"]) ? (body["issues"] as Issue[]) : [];
    const wait = headers.get("retry-after") ?? "";
    this.retryAfter = /^[0-9]+$/.test(wait) ? Number(wait) : undefined;
  }

  /** The first field that is wrong, where the API names one. */
  get field(): string | undefined {
    return this.issues[0]?.field;
  }
}

// The library's errors. Each says whether money may have moved.

import type { Placed, Ticket } from "./bet.js";
import type { ErrorCode } from "./models.js";

/**
 * The known state of the payment when an error is thrown.
 *
 * - `none`: nothing was signed, and no earlier call with the same key is known to have made the bet.
 * - `refused`: the payment was signed and sent, and the service refused it: no money moved. Until `signedUntil`, a holder of
 *   the signature could still send it to the contract, for this bet only and at most once.
 * - `unknown`: the payment was signed and sent, now or by an earlier call, and its outcome is unknown. Continue with
 *   `place(error.ticket)`; if there is no ticket, call `bet` again with the same key.
 * - `made`: the stake is on the chain, or the money arrived and will be booked or refunded.
 */
export type PaymentState = "none" | "refused" | "unknown" | "made";

/** The base of all errors of this library. `ticket`: the ticket of the bet concerned, if any. */
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

/** A call that pays nothing and got no response in time. */
export class Unreachable extends VpmError {}

/** A response that does not match the API's documentation. */
export class UnexpectedAnswer extends VpmError {}

/** An API with a version that this library does not support. */
export class WrongVersion extends VpmError {}

/** A payment challenge that is not for this bet; it was not signed. */
export class Untrusted extends VpmError {}

/** A payment that the service refused, with its reason. */
export class PaymentRefused extends VpmError {}

/**
 * A bet whose payment was sent and whose outcome did not arrive in time. `place(error.ticket)` tries again with the
 * same key and payment, so it makes no second bet.
 */
export class OutcomeUnknown extends VpmError {
  txHash: string | undefined;
}

/** A stake in a block that is not final yet. `placed` has its receipt. */
export class NotFinal extends VpmError {
  constructor(
    message: string,
    readonly placed: Placed,
  ) {
    super(message);
  }
}

/** A receipt that is for another bet or is not signed by the service's key. */
export class ReceiptWrong extends VpmError {}

/** A delivery that is forged, too old or already received. */
export class WebhookRefused extends VpmError {}

/** A problem with one field of a request. */
export interface Issue {
  field: string;
  problem: string;
}

/** A refusal by the API. A response that did not come from the API itself, such as a proxy's, has an empty code. */
export class ApiError extends VpmError {
  readonly code: ErrorCode | "";
  readonly hint: string | undefined;
  readonly docsUrl: string | undefined;
  readonly retriable: boolean;
  readonly requestId: string | undefined;
  readonly txHash: string | undefined;
  readonly tradeId: string | undefined;
  /** Whether a payment that can no longer be collected moved money. */
  readonly moneyMoved: boolean | undefined;
  /** False if a block that is not final refused the bet: if the chain undoes that block, the bet may still be made. */
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
    // A 408 request did not arrive in time and was not processed: retriable, even if its code usually is not.
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

  /** The first invalid field, if the API names one. */
  get field(): string | undefined {
    return this.issues[0]?.field;
  }
}

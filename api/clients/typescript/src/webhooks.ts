// The receiver's side of webhooks and callbacks: verifying deliveries.

import { type Hex, isAddressEqual, recoverMessageAddress, type Address } from "viem";

import { WebhookRefused } from "./errors.js";
import { decode } from "./http.js";
import type { AgentEvent } from "./models.js";

const WINDOW_SECONDS = 300;

export type HeadersLike = Headers | Record<string, string | string[] | undefined>;

/**
 * A verifier of deliveries. Pass the `secret` of a registered webhook. For the callbacks of single trades, pass the
 * `attester`, the address that signs the callbacks (`(await client.health()).health.attester`). The attester signs the
 * callbacks of all wallets: accept only events whose `tradeId` is yours.
 *
 * A delivery is refused if its signature is wrong, its timestamp is more than `windowSeconds` from now, or it was
 * received before. The service may deliver an event again with a new timestamp: skip each `eventId` that you have
 * already handled.
 */
export class WebhookVerifier {
  private readonly seen = new Map<string, number>();
  private readonly windowSeconds: number;
  private readonly clock: () => number;

  constructor(
    private readonly given: { secret: string } | { attester: string },
    options: { windowSeconds?: number; clock?: () => number } = {},
  ) {
    this.windowSeconds = options.windowSeconds ?? WINDOW_SECONDS;
    this.clock = options.clock ?? (() => Date.now() / 1000);
  }

  /** Returns the event; throws WebhookRefused if the delivery is invalid. `body`: the raw bytes received. */
  async verify(headers: HeadersLike, body: Uint8Array): Promise<AgentEvent> {
    const [eventId, stamp, signature] = ["event-id", "timestamp", "signature"].map((name) =>
      header(headers, `service-${name}`),
    ) as [string, string, string];
    const now = this.clock();
    if (!/^[0-9]{1,15}$/.test(stamp) || Math.abs(now - Number(stamp)) > this.windowSeconds) {
      throw new WebhookRefused(`The timestamp ${stamp.slice(0, 20)} is more than ${this.windowSeconds} s from now.`);
    }
    const head = new TextEncoder().encode(`${eventId}.${stamp}.`);
    const text = new Uint8Array(head.length + body.length);
    text.set(head);
    text.set(body, head.length);
    if (!(await this.signed(text, signature))) throw new WebhookRefused("The signature is not the service's.");
    for (const [each, until] of this.seen) if (until <= now) this.seen.delete(each);
    const delivery = `${eventId} ${stamp}`;
    if (this.seen.has(delivery)) throw new WebhookRefused("This delivery was already received.");
    this.seen.set(delivery, Number(stamp) + this.windowSeconds + 1);
    const event = decode<AgentEvent>(new TextDecoder().decode(body));
    if (event.eventId !== eventId) throw new WebhookRefused("The event id in the header differs from the one in the body.");
    return event;
  }

  private async signed(text: Uint8Array<ArrayBuffer>, signature: string): Promise<boolean> {
    if ("secret" in this.given) {
      const secret = new TextEncoder().encode(this.given.secret);
      const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
      const hex = /^v1=([0-9a-f]{64})$/.exec(signature)?.[1];
      // Compares in constant time.
      return hex !== undefined && (await crypto.subtle.verify("HMAC", key, bytes(hex), text));
    }
    const hex = /^eip191=(0x[0-9a-fA-F]{130})$/.exec(signature)?.[1] as Hex | undefined;
    if (hex === undefined) return false;
    try {
      const signer = await recoverMessageAddress({ message: { raw: text }, signature: hex });
      return isAddressEqual(signer, this.given.attester as Address);
    } catch {
      return false;
    }
  }
}

/** Returns the JSON response to `webhook.verify`, which activates the webhook; undefined for any other event. */
export const handshake = (event: AgentEvent): { challenge: string } | undefined =>
  event.type === "webhook.verify" ? { challenge: String(event.payload["challenge"]) } : undefined;

/** Returns the text that the wallet signs to register a webhook. `service`: the API's public origin. */
export const registrationMessage = (service: string, wallet: string, url: string, issued: Date): string =>
  [
    "Service webhook registration",
    `Service: ${service}`,
    `Wallet: ${wallet.toLowerCase()}`,
    `URL: ${url}`,
    `Issued: ${issued.toISOString()}`,
  ].join("\n");

function header(headers: HeadersLike, name: string): string {
  const found =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
  if (typeof found !== "string") throw new WebhookRefused(`The header ${name} is missing.`);
  return found;
}

const bytes = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

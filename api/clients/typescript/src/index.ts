// A client of the VPM agent API: bets made exactly once, events without gaps, webhooks that are the service's.

export { type KeepTicket, type Placed, type SignedPayment, type Ticket, type Wish, tradeId } from "./bet.js";
export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export { Cursor } from "./events.js";
export { API_VERSION } from "./http.js";
export type * from "./models.js";
export {
  type ContractWallet,
  type DigestSigner,
  type Signer,
  type TypedDataSigner,
  type Wallet,
  derSigner,
} from "./wallet.js";
export { WebhookVerifier, handshake, registrationMessage } from "./webhooks.js";

/** Of this library, which is that of the API's OpenAPI document. */
export const VERSION = "1.0.0";

// A client for the VPM agent API: exactly-once bets, gap-free events and verified webhooks.

export { type BetRequest, type KeepTicket, type Placed, type SignedPayment, type Ticket, tradeId } from "./bet.js";
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

/** The version of this library and of the API's OpenAPI document. */
export const VERSION = "1.0.0";

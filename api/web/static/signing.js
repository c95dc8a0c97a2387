// The messages that the cup's wallets sign, byte for byte as the service builds them. Their amounts have at most two
// decimals and no trailing zeros.
import { chainNow } from "./live.js";

/** Formats an amount as on a message's Size line: 25, 25.5 or 25.05. Returns null when the text is not such an amount. */
export function size(text) {
  const found = /^(\d{1,9})(?:[.,](\d{1,2}))?$/.exec(text.trim());
  if (!found) return null;
  const fraction = (found[2] ?? "").replace(/0+$/, "");
  const whole = String(Number(found[1]));
  return fraction ? `${whole}.${fraction}` : whole;
}

/** Returns the present time by the service's clock. The service checks the time, and the device's clock may be wrong. */
export function issuedAt() {
  return new Date(chainNow() * 1000).toISOString().replace(/\.\d+Z$/, "Z");
}

export function betMessage(wallet, round, key, amount, issued) {
  return ["Service Cup roulette bet", `Wallet: ${wallet.toLowerCase()}`, `Round: ${round}`, `Bet: ${key}`, `Size: ${amount} pUSDC`, `Issued: ${issued}`].join("\n");
}

export function tradeMessage(wallet, slug, side, amount, trade, issued) {
  return ["Service Cup paper trade", `Wallet: ${wallet.toLowerCase()}`, `Market: ${slug}`, `Side: ${side}`, `Size: ${amount} pUSDC`, `Trade: ${trade}`, `Issued: ${issued}`].join("\n");
}

/** Posts to the cup's API and returns the response's body with `ok`, `status` and `retryAfter` (seconds). The amount is
 * written exactly as it was signed. */
export async function post(path, fields, amountField, amount) {
  const rest = JSON.stringify(fields);
  const body = amountField ? `${rest.slice(0, -1)},"${amountField}":${amount}}` : rest;
  const response = await fetch(`/api/cup/v1${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  return { retryAfter, ...(await response.json()), ok: response.ok, status: response.status };
}

/** Returns the text of a refusal for the signer. A signed message is valid for five minutes and may have been signed before a
 * reload. */
export function refused(reply, what) {
  return reply.reason === "issued_at_out_of_window" ? `The signature is older than five minutes: nothing was ${what}. Sign again.` : `${reply.message} Nothing was ${what}.`;
}

export function say(element, text, tone = "") {
  element.textContent = text;
  element.className = `status ${tone}`;
}

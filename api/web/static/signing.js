// The cup's messages, byte for byte as the service makes them, and its amounts: at most two decimals, no trailing zero.
import { chainNow } from "./live.js";

/** 25, 25.5, 25.05 as the Size line has it; null when it is no such amount. */
export function size(text) {
  const found = /^(\d{1,9})(?:[.,](\d{1,2}))?$/.exec(text.trim());
  if (!found) return null;
  const fraction = (found[2] ?? "").replace(/0+$/, "");
  const whole = String(Number(found[1]));
  return fraction ? `${whole}.${fraction}` : whole;
}

/** By the clock of the service, which judges it: that of a device may be wrong. */
export function issuedAt() {
  return new Date(chainNow() * 1000).toISOString().replace(/\.\d+Z$/, "Z");
}

export function betMessage(wallet, round, key, amount, issued) {
  return ["Service Cup roulette bet", `Wallet: ${wallet.toLowerCase()}`, `Round: ${round}`, `Bet: ${key}`, `Size: ${amount} pUSDC`, `Issued: ${issued}`].join("\n");
}

export function tradeMessage(wallet, slug, side, amount, trade, issued) {
  return ["Service Cup paper trade", `Wallet: ${wallet.toLowerCase()}`, `Market: ${slug}`, `Side: ${side}`, `Size: ${amount} pUSDC`, `Trade: ${trade}`, `Issued: ${issued}`].join("\n");
}

/** The body of the answer; `ok` says whether it is one of success, `status` which, `retryAfter` how long it asks for. The
 * amount is written as it was signed. */
export async function post(path, fields, amountField, amount) {
  const rest = JSON.stringify(fields);
  const body = amountField ? `${rest.slice(0, -1)},"${amountField}":${amount}}` : rest;
  const answer = await fetch(`/api/cup/v1${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const retryAfter = Number(answer.headers.get("Retry-After")) || undefined;
  return { retryAfter, ...(await answer.json()), ok: answer.ok, status: answer.status };
}

/** What a refusal means for the signer, perhaps of a message signed before a reload. A signed message is valid for five
 * minutes; after that it can no longer be accepted. */
export function refused(said, what) {
  return said.reason === "issued_at_out_of_window" ? `It did not arrive within five minutes: nothing was ${what}. Sign it again.` : `${said.message} Nothing was ${what}.`;
}

export function say(element, text, tone = "") {
  element.textContent = text;
  element.className = `status ${tone}`;
}

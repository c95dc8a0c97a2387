// Sends a signed bet on a stock market until it is in a block, then follows it until that block is final. The bet is stored
// in the browser until then, so a reloaded page carries on with it.
import { refresh } from "./live.js";
import { money, ordinal } from "./money.js";
import { pendingSlot } from "./pending.js";
import { reached } from "./progress.js";
import { isOutcomeUnknown, pause, retryDelay } from "./retry.js";
import { say } from "./signing.js";
import { local } from "./times.js";

/** `wasSent`: whether the bet was sent at least once and has not been refused since.
 * @typedef {{body: object, nonce: string, side: string, stake: string, wasSent?: boolean, landed?: {txHash: string}, refused?: string}} Bet */

const RECEIPT_SECONDS = 3;
const NOT_FINAL = "This is not final yet: if the chain replaces the block that refused it, the bet may still be accepted. This page will show it.";
const EARLIER_TRY = "An earlier attempt may still be accepted. This page will show it.";
/** The error codes by which the relay refuses a bet. Any other code comes from a proxy before the relay and says nothing
 * about the bet. */
const BET_REFUSALS = new Set([
  "market_not_found", "market_closed", "amount_out_of_bounds", "expired", "bad_signature", "contract_signer", "already_used",
  "insufficient_balance", "simulation_failed",
]);
/** The error codes by which the relay refuses the caller or the request, without checking whether the chain has the bet. */
const CALLER_REFUSALS = new Set([
  "region_blocked", "invalid_request", "not_found", "method_not_allowed", "payload_too_large", "unsupported_media_type",
]);
const isFromRelay = ({ error }) => BET_REFUSALS.has(error) || CALLER_REFUSALS.has(error);
const pending = pendingSlot(`stock.${document.body.dataset.market}`, (bet) => bet.nonce);
const byId = (id) => document.getElementById(id);
const line = byId("bet-progress");
const status = byId("bet-status");
const receiptFields = new Map(); // elements by field name
const followed = new WeakMap(); // a promise for each bet whose receipt is being polled
let current = null; // the bet that the page shows

for (const each of byId("bet-receipt").querySelectorAll("[data-receipt]")) receiptFields.set(each.dataset.receipt, each);

/** Returns the bet that this page stored before a reload, or another tab stored; null when there is none. */
export const pendingBet = pending.get;

/** Follows a bet until its outcome is known: it is in a block, or no block can accept it any more. Finality is awaited in
 * the background. `escape` gets the call that places the bet without the relay. */
export async function follow(bet, escape) {
  current = bet;
  byId("bet-receipt").hidden = true;
  byId("bet-actions").replaceChildren();
  if (bet.landed) {
    landed(bet, bet.landed);
    return;
  }
  if (bet.refused) {
    await refused(bet, bet.refused, false);
    return;
  }
  bet.wasSent ||= pendingBet()?.nonce === bet.nonce; // it may have been sent before a reload
  pending.keep(bet);
  reached(line, "signed");
  say(status, "Sending…");
  for (let attempt = 0; ; attempt += 1) {
    const reply = await postBet(bet);
    if (reply?.ok && reply.receipt === "pending") {
      markSent(bet);
      reached(line, "sent");
      byId("bet-actions").replaceChildren();
      say(status, "Sent. Waiting for its block…");
    } else if (reply?.receipt === "confirmed") {
      landed(bet, reply); // also if an earlier response was lost: the relay then returns already_used, with the receipt
      return;
    } else if (reply?.receipt === "reverted") {
      await refused(bet, `The contract refused the bet. ${reply.final ? "No money was taken. The book may have moved; try again." : NOT_FINAL}`, reply.final);
      return;
    } else if (reply && !isOutcomeUnknown(reply.status) && isFromRelay(reply)) {
      const isOpen = bet.wasSent && reply.final === undefined && CALLER_REFUSALS.has(reply.error);
      const why = reply.message ?? "The bet was refused.";
      const known = isOpen ? refused(bet, `${why} ${EARLIER_TRY}`, false) : refused(bet, why, reply.final);
      escape(reply.escapeKit, () => untilFinal(bet));
      await known;
      return;
    } else {
      markSent(bet);
      say(status, waitingText(reply));
      escape(reply?.escapeKit, () => untilFinal(bet));
      const receipt = await receiptOf(bet);
      if (receipt?.txHash) {
        landed(bet, { ...receipt, positionId: receipt.position?.id });
        return;
      }
      if (receipt && tooLate(bet, receipt)) {
        drop(bet, "The bet could not be sent in time and has expired. No money was taken.");
        return;
      }
    }
    await pause(retryDelay(attempt, reply));
  }
}

function markSent(bet) {
  if (bet.wasSent) return;
  bet.wasSent = true;
  pending.keep(bet);
}

/** Returns the relay's response; null when there is none. `retryAfter` is in seconds, from the body or the header. */
async function postBet({ body }) {
  try {
    const response = await fetch("/api/relay/enter", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const wait = Number(response.headers.get("Retry-After")) || undefined;
    return { retryAfter: wait, ...(await response.json()), status: response.status, ok: response.ok };
  } catch {
    return null;
  }
}

function waitingText(reply) {
  if (reply === null || !(isOutcomeUnknown(reply.status) && reply.message)) return "No connection. Sending the same bet again…";
  const isCallerLimited = reply.error === "rate_limited" && !reply.escapeKit; // the relay has not looked at the bet
  return isCallerLimited ? "No result yet. Asking again shortly…" : reply.message;
}

/** Returns whether the bet has expired. If an expired bet is in no block, it never will be. */
const tooLate = (bet, receipt) => receipt.head.timestamp > Number(bet.body.validBefore);

/** Shows a refusal. If the block that refused the bet may still be replaced (`final` is false), polls until the bet expires,
 * without sending it again: its outcome is unknown until then. */
async function refused(bet, text, final) {
  if (final !== false) {
    drop(bet, text);
    return;
  }
  bet.refused = text;
  pending.keep(bet);
  reached(line, "");
  byId("bet-actions").replaceChildren();
  say(status, text, "bad");
  await untilFinal(bet);
}

/** Forgets a bet that is not on the chain and never will be. */
function drop(bet, text) {
  pending.forget(bet);
  reached(line, "");
  byId("bet-actions").replaceChildren();
  byId("bet-receipt").hidden = true;
  say(status, text, "bad");
}

// ---------------------------------------------------------------- in its block

/** Shows a bet that is in a block, by the relay's response or a receipt, now or before a reload. */
function landed(bet, { txHash, blockNumber, positionId }) {
  keepLanded(bet, { txHash, blockNumber, positionId });
  byId("bet-actions").replaceChildren();
  say(status, `Confirmed${positionId ? `: position ${ordinal(positionId)}` : ""}. ${money(BigInt(bet.stake))} USDG on ${bet.side}.`, "good");
  show(bet, bet.landed);
  untilFinal(bet);
  refresh();
}

function keepLanded(bet, where) {
  bet.landed = where;
  pending.keep(bet);
}

/** Polls the receipt until the bet's block is final. If the chain replaces the block, the bet is unconfirmed again until
 * another block includes it. */
function untilFinal(bet) {
  if (!followed.has(bet)) followed.set(bet, receipts(bet));
  return followed.get(bet);
}

async function receipts(bet) {
  while (current === bet) {
    const reply = await receiptOf(bet);
    if (current !== bet) return;
    if (reply?.txHash && bet.refused) {
      delete bet.refused;
      followed.delete(bet);
      landed(bet, { ...reply, positionId: reply.position?.id });
      return;
    }
    if (reply?.txHash) {
      const { txHash, blockNumber, position } = reply;
      keepLanded(bet, { txHash, blockNumber, positionId: position?.id ?? bet.landed?.positionId });
      show(bet, bet.landed, position);
      if (reply.receipt === "final") {
        reached(line, "final");
        pending.forget(bet);
        return;
      }
    } else if (reply && tooLate(bet, reply)) {
      drop(bet, bet.refused ? "The bet was refused and has expired. No money was taken." : "The chain replaced the bet's block and did not include the bet again before it expired. No money was taken.");
      return;
    } else if (reply && replaced(bet, reply)) {
      reached(line, "sent");
      say(status, "The chain replaced the bet's block. Waiting for another one…");
    }
    await pause(RECEIPT_SECONDS * 1000);
  }
}

/** Returns whether the service has read past the block that the bet was in without finding the bet there. */
const replaced = (bet, { head }) => Boolean(bet.landed?.blockNumber) && Number(head.blockNumber) >= Number(bet.landed.blockNumber);

const receiptAddress = (bet) => `/api/relay/receipt?${new URLSearchParams({ from: bet.body.from, nonce: bet.nonce })}`;

async function receiptOf(bet) {
  try {
    const response = await fetch(receiptAddress(bet));
    return response.ok ? await response.json() : null;
  } catch {
    return null; // the caller tries again
  }
}

/** Shows what is known of the receipt. */
function show(bet, { txHash, blockNumber, positionId }, position = null) {
  reached(line, "block", blockNumber ? `in block ${blockNumber}` : "in a block");
  byId("bet-receipt").hidden = false;
  const hash = receiptFields.get("tx");
  hash.title = txHash;
  hash.textContent = `${txHash.slice(0, 6)}…${txHash.slice(-4)}`;
  receiptFields.get("block").textContent = blockNumber ?? "–";
  const at = position?.enteredAt ? `, ${local(new Date(position.enteredAt * 1000))}` : "";
  receiptFields.get("entry").textContent = positionId ? `${ordinal(positionId)}${at}` : "–";
  const accepted = position?.accepted;
  receiptFields.get("least").textContent = accepted ? `${money(BigInt(accepted))} USDG` : "known when its block ends";
  receiptFields.get("link").href = receiptAddress(bet);
}

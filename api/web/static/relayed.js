// A signed bet on a stock market on its way: sent until it is in a block, then followed until nothing undoes that. All it
// takes is kept in the browser until then, so a page loaded again goes on with it.
import { refresh } from "./live.js";
import { money, ordinal } from "./money.js";
import { pendingOf } from "./pending.js";
import { reached } from "./progress.js";
import { patience, pause, unsure } from "./resend.js";
import { say } from "./signing.js";
import { local } from "./times.js";

/** `wasSent`: it was sent before and has not been refused since.
 * @typedef {{body: object, nonce: string, side: string, stake: string, wasSent?: boolean, landed?: {txHash: string}, refused?: string}} Bet */

const RECEIPT_SECONDS = 3;
const FOR_NOW = "That is not final yet: should the chain undo the block that refused it, it may still be taken, and this page tells.";
const EARLIER_TRY = "What was sent of it before may still be taken, and this page tells.";
/** The relay's refusals of a bet. An answer by any other name is of something before it, and says nothing of the bet. */
const OF_THE_BET = new Set([
  "market_not_found", "market_closed", "amount_out_of_bounds", "expired", "bad_signature", "contract_signer", "already_used",
  "insufficient_balance", "simulation_failed",
]);
/** Its refusals of the caller or the request: it did not check whether the chain has the bet. */
const LOOKED_FOR_NOTHING = new Set([
  "region_blocked", "invalid_request", "not_found", "method_not_allowed", "payload_too_large", "unsupported_media_type",
]);
const isTheRelays = ({ error }) => OF_THE_BET.has(error) || LOOKED_FOR_NOTHING.has(error);
const kept = pendingOf(`stock.${document.body.dataset.market}`, (bet) => bet.nonce);
const byId = (id) => document.getElementById(id);
const line = byId("bet-progress");
const status = byId("bet-status");
const shown = new Map(); // the receipt's parts by name
const followed = new WeakMap(); // how it ends with each bet whose receipt is asked for
let current = null; // the bet that the page is showing

for (const each of byId("bet-receipt").querySelectorAll("[data-receipt]")) shown.set(each.dataset.receipt, each);

/** The bet that a page before this one was at; null when there is none. */
export const keptBet = kept.get;

/** Follows a bet until its outcome is known: it is in a block, or can no longer get into one. The wait for finality goes on
 * in the background. `escape` is offered the relay's way around. */
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
  bet.wasSent ||= keptBet()?.nonce === bet.nonce; // a page before this one may have sent it
  kept.keep(bet);
  reached(line, "signed");
  say(status, "Sending…");
  for (let attempt = 0; ; attempt += 1) {
    const said = await sent(bet);
    if (said?.ok && said.receipt === "pending") {
      remember(bet);
      reached(line, "sent");
      byId("bet-actions").replaceChildren();
      say(status, "Sent. Waiting for its block…");
    } else if (said?.receipt === "confirmed") {
      landed(bet, said); // also when an answer before this one was lost: then it is refused as used, and said to be booked
      return;
    } else if (said?.receipt === "reverted") {
      await refused(bet, `The contract refused it. ${said.final ? "Nothing was taken. The book may have moved; try again." : FOR_NOW}`, said.final);
      return;
    } else if (said && !unsure(said.status) && isTheRelays(said)) {
      const isOpen = bet.wasSent && said.final === undefined && LOOKED_FOR_NOTHING.has(said.error);
      const why = said.message ?? "It was refused.";
      const known = isOpen ? refused(bet, `${why} ${EARLIER_TRY}`, false) : refused(bet, why, said.final);
      escape(said.escapeKit, () => untilFinal(bet));
      await known;
      return;
    } else {
      remember(bet);
      say(status, unanswered(said));
      escape(said?.escapeKit, () => untilFinal(bet));
      const receipt = await receiptOf(bet);
      if (receipt?.txHash) {
        landed(bet, { ...receipt, positionId: receipt.position?.id });
        return;
      }
      if (receipt && tooLate(bet, receipt)) {
        over(bet, "It could not be sent in time. Nothing was taken, and nothing can be any more.");
        return;
      }
    }
    await pause(patience(attempt, said));
  }
}

function remember(bet) {
  if (bet.wasSent) return;
  bet.wasSent = true;
  kept.keep(bet);
}

/** The relay's answer; null when there is none. `retryAfter`: what it asks for, in its body or before it. */
async function sent({ body }) {
  try {
    const answer = await fetch("/api/relay/enter", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const wait = Number(answer.headers.get("Retry-After")) || undefined;
    return { retryAfter: wait, ...(await answer.json()), status: answer.status, ok: answer.ok };
  } catch {
    return null;
  }
}

function unanswered(said) {
  if (said === null || !(unsure(said.status) && said.message)) return "No connection. The same bet is sent again…";
  const isOfWhoAsks = said.error === "rate_limited" && !said.escapeKit; // the relay has not looked at the bet
  return isOfWhoAsks ? "Not known yet. It is asked for again shortly…" : said.message;
}

/** The chain can take it no more: what is not in a block by then never will be. */
const tooLate = (bet, receipt) => receipt.head.timestamp > Number(bet.body.validBefore);

/** In a block that may still be undone (`final` is false) it is looked for until the chain can take it no more, and not sent.
 * Until then it is not known what became of it. */
async function refused(bet, text, final) {
  if (final !== false) {
    over(bet, text);
    return;
  }
  bet.refused = text;
  kept.keep(bet);
  reached(line, "");
  byId("bet-actions").replaceChildren();
  say(status, text, "bad");
  await untilFinal(bet);
}

/** Nothing of it is or will be on the chain. */
function over(bet, text) {
  kept.forget(bet);
  reached(line, "");
  byId("bet-actions").replaceChildren();
  byId("bet-receipt").hidden = true;
  say(status, text, "bad");
}

// ---------------------------------------------------------------- in its block

/** It is in a block, as the relay or a receipt said, now or before the page was loaded. */
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
  kept.keep(bet);
}

/** Asks for its receipt until nothing undoes its block. A block that is replaced by another takes the bet back for a while. */
function untilFinal(bet) {
  if (!followed.has(bet)) followed.set(bet, receipts(bet));
  return followed.get(bet);
}

async function receipts(bet) {
  while (current === bet) {
    const said = await receiptOf(bet);
    if (current !== bet) return;
    if (said?.txHash && bet.refused) {
      delete bet.refused;
      followed.delete(bet);
      landed(bet, { ...said, positionId: said.position?.id });
      return;
    }
    if (said?.txHash) {
      const { txHash, blockNumber, position } = said;
      keepLanded(bet, { txHash, blockNumber, positionId: position?.id ?? bet.landed?.positionId });
      show(bet, bet.landed, position);
      if (said.receipt === "final") {
        reached(line, "final");
        kept.forget(bet);
        return;
      }
    } else if (said && tooLate(bet, said)) {
      over(bet, bet.refused ? "It was refused. Nothing was taken, and nothing can be any more." : "The chain replaced its block, and did not take it again in time. Nothing was taken.");
      return;
    } else if (said && replaced(bet, said)) {
      reached(line, "sent");
      say(status, "The chain replaced its block. Waiting for the next one…");
    }
    await pause(RECEIPT_SECONDS * 1000);
  }
}

/** The service has read on past the block that the bet was in, and it is not there. */
const replaced = (bet, { head }) => Boolean(bet.landed?.blockNumber) && Number(head.blockNumber) >= Number(bet.landed.blockNumber);

const receiptAddress = (bet) => `/api/relay/receipt?${new URLSearchParams({ from: bet.body.from, nonce: bet.nonce })}`;

async function receiptOf(bet) {
  try {
    const answer = await fetch(receiptAddress(bet));
    return answer.ok ? await answer.json() : null;
  } catch {
    return null; // it is asked for again
  }
}

/** The receipt as far as it is known. */
function show(bet, { txHash, blockNumber, positionId }, position = null) {
  reached(line, "block", blockNumber ? `in block ${blockNumber}` : "in a block");
  byId("bet-receipt").hidden = false;
  const hash = shown.get("tx");
  hash.title = txHash;
  hash.textContent = `${txHash.slice(0, 6)}…${txHash.slice(-4)}`;
  shown.get("block").textContent = blockNumber ?? "–";
  const at = position?.enteredAt ? `, ${local(new Date(position.enteredAt * 1000))}` : "";
  shown.get("entry").textContent = positionId ? `${ordinal(positionId)}${at}` : "–";
  const accepted = position?.accepted;
  shown.get("least").textContent = accepted ? `${money(BigInt(accepted))} USDG` : "when its block ends";
  shown.get("link").href = receiptAddress(bet);
}

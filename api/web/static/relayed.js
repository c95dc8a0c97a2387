// A signed bet on a stock market on its way: sent until it is in a block, then followed until nothing undoes that. All it
// takes is kept in the browser until then, so a page loaded again goes on with it.
import { refresh } from "./live.js";
import { money, ordinal } from "./money.js";
import { pendingOf } from "./pending.js";
import { reached } from "./progress.js";
import { patience, pause, unsure } from "./resend.js";
import { say } from "./signing.js";
import { local } from "./times.js";

/** `unheard`: it was sent, and an answer to that never came.
 * @typedef {{body: object, nonce: string, side: string, stake: string, unheard?: boolean, landed?: {txHash: string}, refused?: string}} Bet */

const RECEIPT_SECONDS = 3;
const FOR_NOW = "That is not final yet: should the chain undo the block that refused it, it may still be taken, and this page tells.";
const EARLIER_TRY = "What was sent of it before may still be taken, and this page tells.";
/** Refusals of who asks: whether the chain has the bet, nobody has looked. */
const LOOKED_FOR_NOTHING = new Set([undefined, "region_blocked"]);
const kept = pendingOf(`stock.${document.body.dataset.market}`, (bet) => bet.nonce);
const byId = (id) => document.getElementById(id);
const line = byId("bet-progress");
const status = byId("bet-status");
const shown = new Map(); // the receipt's parts by name
const followed = new WeakSet(); // bets whose receipt is asked for
let current = null; // the bet that the page tells of

for (const each of byId("bet-receipt").querySelectorAll("[data-receipt]")) shown.set(each.dataset.receipt, each);

/** The bet that a page before this one was at; null when there is none. */
export const keptBet = kept.get;

/** Until it is known what became of it; its final block is waited for beside. `escape` is offered the relay's way around. */
export async function follow(bet, escape) {
  current = bet;
  byId("bet-receipt").hidden = true;
  byId("bet-actions").replaceChildren();
  if (bet.landed) {
    landed(bet, bet.landed);
    return;
  }
  if (bet.refused) {
    refused(bet, bet.refused, false);
    return;
  }
  bet.unheard ||= keptBet()?.nonce === bet.nonce; // a page before this one may have sent it
  kept.keep(bet);
  reached(line, "signed");
  say(status, "Sending…");
  for (let attempt = 0; ; attempt += 1) {
    const said = await sent(bet);
    if (said?.ok && said.receipt === "pending") {
      reached(line, "sent");
      byId("bet-actions").replaceChildren();
      say(status, "Sent. Waiting for its block…");
    } else if (said?.receipt === "confirmed") {
      landed(bet, said); // also when an answer before this one was lost: then it is refused as used, and said to be booked
      return;
    } else if (said?.receipt === "reverted") {
      refused(bet, `The contract refused it. ${said.final ? "Nothing was taken. The book may have moved; try again." : FOR_NOW}`, said.final);
      return;
    } else if (said && !unsure(said.status)) {
      const isOpen = bet.unheard && said.final === undefined && LOOKED_FOR_NOTHING.has(said.error);
      const why = said.message ?? "It was refused.";
      if (isOpen) refused(bet, `${why} ${EARLIER_TRY}`, false);
      else refused(bet, why, said.final);
      escape(said.escapeKit, () => untilFinal(bet));
      return;
    } else {
      bet.unheard = true;
      kept.keep(bet);
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
  if (said === null) return "No connection. The same bet is sent again…";
  const isOfWhoAsks = said.error === "rate_limited" && !said.escapeKit; // nobody looked at the bet
  return isOfWhoAsks ? "Not known yet. It is asked for again shortly…" : said.message;
}

/** The chain can take it no more: what is not in a block by then never will be. */
const tooLate = (bet, receipt) => receipt.head.timestamp > Number(bet.body.validBefore);

/** In a block that may still be undone (`final` is false) it is looked for until the chain can take it no more, and not sent. */
function refused(bet, text, final) {
  if (final !== false) {
    over(bet, text);
    return;
  }
  bet.refused = text;
  kept.keep(bet);
  reached(line, "");
  byId("bet-actions").replaceChildren();
  say(status, text, "bad");
  untilFinal(bet);
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
async function untilFinal(bet) {
  if (followed.has(bet)) return;
  followed.add(bet);
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

// A bet on an agent market, paid through x402 by the client library: what it would get, one signature, and what became of
// it. Its ticket is kept in the browser, so a page loaded again goes on with the same bet.
import { hold, isHeld } from "./held.js";
import { refresh } from "./live.js";
import { failed, pendingOf } from "./pending.js";
import { reached } from "./progress.js";
import { patience, pause } from "./resend.js";
import { say, size } from "./signing.js";
import { WalletError, baseChain, connect, current, onChain, signTyped } from "./wallet.js";

const QUOTE_AFTER_MS = 400;
const DOMAIN = [
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
];
const byId = (id) => document.getElementById(id);
const line = byId("a-progress");
const status = byId("a-status");
const form = byId("agent-bet");
const market = document.body.dataset.market;
const kept = pendingOf(`agent.${market}`, (ticket) => ticket.idemKey);
let shown = ""; // the key of the bet that the page is showing
let priced = null; // what the panel shows: the price of one bet, and the least that it may bring
let asked = 0;
let soon = 0;
let clockOff = 0; // how far this device's clock is from the service's, in minutes

// ---------------------------------------------------------------- what it would get

function wish() {
  return { market, side: new FormData(form).get("side"), sizeUsd: Number(size(byId("usd").value) ?? NaN) };
}

function quoteSoon() {
  clearTimeout(soon);
  soon = setTimeout(quote, QUOTE_AFTER_MS);
}

async function quote() {
  clearTimeout(soon);
  const { side, sizeUsd } = wish();
  const wrong = Number.isNaN(sizeUsd) ? "Write an amount with at most two decimals, such as 5 or 12.50." : "";
  blame(wrong);
  if (wrong) return;
  const mine = ++asked;
  try {
    const answer = await fetch(`/api/agent/v1/quote?${new URLSearchParams({ marketId: market, side, sizeUsd })}`);
    const said = await answer.json();
    if (mine !== asked) return;
    if (!answer.ok) {
      blame(said.message);
      if (said.retryAfter) soon = setTimeout(quote, said.retryAfter * 1000); // the message says when, and ends then
      return;
    }
    const found = said.quote;
    priced = { side, sizeUsd, minShares: found.suggestedMinSharesOut };
    byId("a-paid").textContent = `${usd(found.projectedPayoutUsd)} USDC`;
    byId("a-shares").textContent = `${found.estimatedShares.toFixed(2)} at ${found.priceCents.toFixed(1)}¢`;
    byId("a-fee").textContent = usd(found.feeUsd);
    byId("a-warnings").replaceChildren(...found.warnings.map((each) => item(each.message)));
  } catch {
    // No connection: the quote comes with the next change.
  }
}

function blame(text) {
  byId("usd-error").textContent = text;
  byId("usd").setAttribute("aria-invalid", String(Boolean(text)));
  if (text) for (const id of ["a-paid", "a-shares", "a-fee"]) byId(id).textContent = "–";
}

function item(text) {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

function usd(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

// ---------------------------------------------------------------- the bet

/** The library's client for one bet; `signer` is asked only when there is something to sign. */
function client(library, address, told) {
  const signer = {
    address,
    async signTypedData(typed) {
      await connect();
      if (current().toLowerCase() !== address.toLowerCase()) throw new WalletError(`This bet is of ${address}. Connect that wallet to go on with it.`);
      await onChain(baseChain);
      say(status, "Confirm in your wallet…");
      return signTyped({ ...typed, types: { EIP712Domain: DOMAIN, ...typed.types } });
    },
  };
  return new library.Client({ baseUrl: location.origin, wallet: signer, token: baseChain.token, contract: baseChain.settler, fetch: told });
}

/** At the price that is shown, unless a signed bet is still under way: that one comes first, for a new one might be its
 * double. */
async function bet() {
  const open = signedAndOpen();
  if (open) {
    await guarded((library) => follow(library, open));
    return;
  }
  const chosen = wish();
  if (Number.isNaN(chosen.sizeUsd)) return;
  await guarded(async (library) => {
    await connect();
    say(status, "Preparing the bet…");
    const isShown = () => priced?.side === chosen.side && priced.sizeUsd === chosen.sizeUsd;
    if (!isShown()) await quote();
    if (!isShown()) throw new WalletError("Its price could not be asked for; nothing was signed. Try again.");
    const { minShares } = priced;
    priced = null; // the next bet gets a new price
    const ticket = await client(library, current(), fetch.bind(globalThis)).prepare({ ...chosen, minShares });
    await follow(library, ticket);
  });
}

/** A signed bet whose outcome is not known yet. */
function signedAndOpen() {
  const ticket = kept.get();
  return ticket?.payment && !ticket.isPlaced ? ticket : null;
}

/** Goes on with a ticket until it is known what became of it. However often this happens, it is one bet. */
async function follow(library, ticket) {
  shown = ticket.idemKey;
  byId("a-receipt").replaceChildren();
  reached(line, ticket.payment ? "signed" : "");
  if (ticket.payment) say(status, "Sending…");
  const api = client(library, ticket.wallet, (url, options) => watched(ticket, url, options));
  let known = ticket;
  const keep = (changed) => {
    known = changed;
    kept.keep(changed);
    if (!changed.payment) return;
    reached(line, "signed");
    say(status, "Sending…");
  };
  for (let attempt = 0; ; attempt += 1) {
    try {
      const placed = await api.place(known, { final: false, keep });
      kept.keep({ ...placed.ticket, isPlaced: true });
      say(status, `In: ${usd(placed.receipt.sizeUsd)} USDC on ${placed.receipt.side}, ${placed.receipt.position.shares.toFixed(2)} shares.`, "good");
      receipt(placed.receipt);
      refresh();
      untilFinal(api, placed);
      return;
    } catch (error) {
      if (error instanceof library.OutcomeUnknown) { // no answer about the outcome: send the same request again
        await pause(patience(attempt));
        continue;
      }
      const isOpen = error instanceof library.VpmError ? error.mayHavePaid : Boolean(known.payment);
      if (isOpen) offerAgain(known);
      else over(known);
      if (error.code === "slippage_exceeded") quote(); // the price it was refused at has gone
      if (error instanceof library.PaymentRefused && clockOff) throw new WalletError(`${error.message} The clock of this device is off by ${clockOff} minutes: set it, and bet again.`);
      throw error;
    }
  }
}

/** Like fetch; while the outcome is unknown, also shows what an answer to the paid request says about the bet. */
async function watched(ticket, url, options) {
  const isBet = Boolean(options.headers?.["X-PAYMENT"]) && shown === ticket.idemKey;
  try {
    const answer = await fetch(url, options);
    const told = Date.parse(answer.headers.get("Date") ?? "");
    if (!Number.isNaN(told)) clockOff = Math.round(Math.abs(Date.now() - told) / 60_000);
    if (isBet) await tell(answer.clone());
    return answer;
  } catch (error) {
    if (isBet) say(status, "No connection. The same bet is asked for again…");
    throw error;
  }
}

async function tell(answer) {
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) reached(line, "block");
  else if (said.txHash) {
    reached(line, "sent");
    say(status, "Sent. Waiting for its block…");
  } else if (answer.status >= 500 || answer.status === 429) {
    say(status, `${said.message ?? "The service does not answer."} The same bet is asked for again…`);
  }
}

/** Until its block cannot be undone; then the ticket has done its work. */
async function untilFinal(api, { ticket, receipt: { tradeId } }) {
  const named = (proof) => `in block ${proof.settlement.blockNumber}`;
  try {
    const proof = await api.proof(tradeId);
    if (shown === ticket.idemKey) reached(line, "block", named(proof));
  } catch {
    // Its number comes with the final one.
  }
  let proof;
  try {
    ({ proof } = await api.place(ticket));
  } catch {
    return; // The stake is in its block, and the page asks again when it is loaded again.
  }
  kept.forget(ticket);
  if (shown !== ticket.idemKey) return; // the page shows another bet by now
  reached(line, "block", named(proof));
  reached(line, "final");
}

/** Nothing of it is or will be on the chain. */
function over(ticket) {
  kept.forget(ticket);
  reached(line, "");
}

async function guarded(act) {
  const button = byId("a-bet");
  if (button) hold(button, true);
  try {
    const library = await import("./betting.js");
    await act(library).catch((error) => {
      const isTold = error instanceof WalletError || error instanceof library.VpmError;
      say(status, isTold ? error.message : failed(Boolean(signedAndOpen())), "bad");
    });
  } catch {
    const open = signedAndOpen();
    say(status, failed(Boolean(open), "The service could not be reached."), "bad");
    if (open) offerAgain(open);
  } finally {
    if (button) hold(button, false);
  }
}

function receipt({ proofUrl, txHash }) {
  const link = document.createElement("a");
  link.href = new URL(proofUrl).pathname;
  link.textContent = "The receipt, to keep";
  const hash = document.createElement("code");
  hash.className = "hash";
  hash.title = txHash;
  hash.textContent = `${txHash.slice(0, 6)}…${txHash.slice(-4)}`;
  byId("a-receipt").replaceChildren(link, " · transaction ", hash);
}

function offerAgain(ticket) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Ask again";
  button.addEventListener("click", () => guarded((library) => follow(library, ticket)));
  byId("a-receipt").replaceChildren(button);
}

if (form) {
  form.addEventListener("focusin", quoteSoon, { once: true }); // quotes are limited for each address: who only reads uses none
  form.addEventListener("input", quoteSoon);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isHeld(byId("a-bet"))) bet();
  });
  for (const button of form.querySelectorAll("[data-usd]")) {
    button.addEventListener("click", () => {
      byId("usd").value = button.dataset.usd;
      quote();
    });
  }
}
const before = kept.get();
if (before) {
  say(status, "A bet of yours is under way…");
  guarded((library) => follow(library, before));
}

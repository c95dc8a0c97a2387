// A bet on an agent market, paid through x402 by the client library: the quote, one signature, and the progress of the bet.
// The ticket is stored in the browser, so a reloaded page carries on with the same bet.
import { isBusy, setBusy } from "./busy.js";
import { refresh } from "./live.js";
import { failed, pendingSlot } from "./pending.js";
import { reached } from "./progress.js";
import { pause, retryDelay } from "./retry.js";
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
const pending = pendingSlot(`agent.${market}`, (ticket) => ticket.idemKey);
let shown = ""; // the key of the bet that the page shows
let priced = null; // the quote that the panel shows: its bet, and the fewest shares it may buy
let asked = 0;
let soon = 0;
let clockOff = 0; // minutes between this device's clock and the service's

// ---------------------------------------------------------------- the quote

function chosenBet() {
  return { market, side: new FormData(form).get("side"), sizeUsd: Number(size(byId("usd").value) ?? NaN) };
}

function quoteSoon() {
  clearTimeout(soon);
  soon = setTimeout(quote, QUOTE_AFTER_MS);
}

async function quote() {
  clearTimeout(soon);
  const { side, sizeUsd } = chosenBet();
  const wrong = Number.isNaN(sizeUsd) ? "Enter an amount with at most two decimals, such as 5 or 12.50." : "";
  showError(wrong);
  if (wrong) return;
  const mine = ++asked;
  try {
    const response = await fetch(`/api/agent/v1/quote?${new URLSearchParams({ marketId: market, side, sizeUsd })}`);
    const reply = await response.json();
    if (mine !== asked) return;
    if (!response.ok) {
      showError(reply.message);
      if (reply.retryAfter) soon = setTimeout(quote, reply.retryAfter * 1000); // the message names the wait, and is outdated then
      return;
    }
    const found = reply.quote;
    priced = { side, sizeUsd, minShares: found.suggestedMinSharesOut };
    byId("a-paid").textContent = `${usd(found.projectedPayoutUsd)} USDC`;
    byId("a-shares").textContent = `${found.estimatedShares.toFixed(2)} at ${found.priceCents.toFixed(1)}¢`;
    byId("a-fee").textContent = usd(found.feeUsd);
    byId("a-warnings").replaceChildren(...found.warnings.map((each) => item(each.message)));
  } catch {
    // No connection: the next change of the form asks again.
  }
}

function showError(text) {
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

/** Makes the library's client for one bet; the wallet is asked only when there is something to sign. */
function client(library, address, send) {
  const signer = {
    address,
    async signTypedData(typed) {
      await connect();
      if (current().toLowerCase() !== address.toLowerCase()) throw new WalletError(`This bet belongs to ${address}. Connect that wallet to continue.`);
      await onChain(baseChain);
      say(status, "Confirm in your wallet…");
      return signTyped({ ...typed, types: { EIP712Domain: DOMAIN, ...typed.types } });
    },
  };
  return new library.Client({ baseUrl: location.origin, wallet: signer, token: baseChain.token, contract: baseChain.settler, fetch: send });
}

/** Bets at the price that is shown. A signed bet that is still open comes first: a new one might double it. */
async function bet() {
  const open = signedAndOpen();
  if (open) {
    await guarded((library) => follow(library, open));
    return;
  }
  const chosen = chosenBet();
  if (Number.isNaN(chosen.sizeUsd)) return;
  await guarded(async (library) => {
    await connect();
    say(status, "Preparing the bet…");
    const isShown = () => priced?.side === chosen.side && priced.sizeUsd === chosen.sizeUsd;
    if (!isShown()) await quote();
    if (!isShown()) throw new WalletError("The price could not be loaded; nothing was signed. Try again.");
    const { minShares } = priced;
    priced = null; // the next bet gets a new price
    const ticket = await client(library, current(), fetch.bind(globalThis)).prepare({ ...chosen, minShares });
    await follow(library, ticket);
  });
}

/** Returns the signed bet whose outcome is unknown, or null. */
function signedAndOpen() {
  const ticket = pending.get();
  return ticket?.payment && !ticket.isPlaced ? ticket : null;
}

/** Places a ticket and follows it until its outcome is known. However often this runs, it is one bet. */
async function follow(library, ticket) {
  shown = ticket.idemKey;
  byId("a-receipt").replaceChildren();
  reached(line, ticket.payment ? "signed" : "");
  if (ticket.payment) say(status, "Sending…");
  const api = client(library, ticket.wallet, (url, options) => fetchBet(ticket, url, options));
  let known = ticket;
  const keep = (changed) => {
    known = changed;
    pending.keep(changed);
    if (!changed.payment) return;
    reached(line, "signed");
    say(status, "Sending…");
  };
  for (let attempt = 0; ; attempt += 1) {
    try {
      const placed = await api.place(known, { final: false, keep });
      pending.keep({ ...placed.ticket, isPlaced: true });
      say(status, `Bet placed: ${usd(placed.receipt.sizeUsd)} USDC on ${placed.receipt.side}, ${placed.receipt.position.shares.toFixed(2)} shares.`, "good");
      receipt(placed.receipt);
      refresh();
      untilFinal(api, placed);
      return;
    } catch (error) {
      if (error instanceof library.OutcomeUnknown) { // send the same request again
        await pause(retryDelay(attempt));
        continue;
      }
      const isOpen = error instanceof library.VpmError ? error.mayHavePaid : Boolean(known.payment);
      if (isOpen) offerAgain(known);
      else over(known);
      if (error.code === "slippage_exceeded") quote(); // the shown price is outdated
      if (error instanceof library.PaymentRefused && clockOff) throw new WalletError(`${error.message} This device's clock is off by ${clockOff} minutes: correct it and bet again.`);
      throw error;
    }
  }
}

/** Works like fetch, and shows the progress of the bet that a response to the paid request reveals. */
async function fetchBet(ticket, url, options) {
  const isBet = Boolean(options.headers?.["X-PAYMENT"]) && shown === ticket.idemKey;
  try {
    const response = await fetch(url, options);
    const serverDate = Date.parse(response.headers.get("Date") ?? "");
    if (!Number.isNaN(serverDate)) clockOff = Math.round(Math.abs(Date.now() - serverDate) / 60_000);
    if (isBet) await showProgress(response.clone());
    return response;
  } catch (error) {
    if (isBet) say(status, "No connection. Sending the same bet again…");
    throw error;
  }
}

async function showProgress(response) {
  const reply = await response.json().catch(() => ({}));
  if (response.ok) reached(line, "block");
  else if (reply.txHash) {
    reached(line, "sent");
    say(status, "Sent. Waiting for its block…");
  } else if (response.status >= 500 || response.status === 429) {
    say(status, `${reply.message ?? "The service does not respond."} Sending the same bet again…`);
  }
}

/** Waits until the bet's block is final, then forgets the ticket. */
async function untilFinal(api, { ticket, receipt: { tradeId } }) {
  const named = (proof) => `in block ${proof.settlement.blockNumber}`;
  try {
    const proof = await api.proof(tradeId);
    if (shown === ticket.idemKey) reached(line, "block", named(proof));
  } catch {
    // The final proof has the number, too.
  }
  let proof;
  try {
    ({ proof } = await api.place(ticket));
  } catch {
    return; // The stake is in its block; a reloaded page asks again.
  }
  pending.forget(ticket);
  if (shown !== ticket.idemKey) return; // the page shows another bet by now
  reached(line, "block", named(proof));
  reached(line, "final");
}

/** Forgets a bet that is not on the chain and never will be. */
function over(ticket) {
  pending.forget(ticket);
  reached(line, "");
}

async function guarded(act) {
  const button = byId("a-bet");
  if (button) setBusy(button, true);
  try {
    const library = await import("./betting.js");
    await act(library).catch((error) => {
      const isReadable = error instanceof WalletError || error instanceof library.VpmError;
      say(status, isReadable ? error.message : failed(Boolean(signedAndOpen())), "bad");
    });
  } catch {
    const open = signedAndOpen();
    say(status, failed(Boolean(open), "The service could not be reached."), "bad");
    if (open) offerAgain(open);
  } finally {
    if (button) setBusy(button, false);
  }
}

function receipt({ proofUrl, txHash }) {
  const link = document.createElement("a");
  link.href = new URL(proofUrl).pathname;
  link.textContent = "Receipt";
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
  button.textContent = "Try again";
  button.addEventListener("click", () => guarded((library) => follow(library, ticket)));
  byId("a-receipt").replaceChildren(button);
}

if (form) {
  form.addEventListener("focusin", quoteSoon, { once: true }); // quotes are rate-limited: a visitor who only reads uses none
  form.addEventListener("input", quoteSoon);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isBusy(byId("a-bet"))) bet();
  });
  for (const button of form.querySelectorAll("[data-usd]")) {
    button.addEventListener("click", () => {
      byId("usd").value = button.dataset.usd;
      quote();
    });
  }
}
const before = pending.get();
if (before) {
  say(status, "Your earlier bet is still pending…");
  guarded((library) => follow(library, before));
}

// A bet on an agent market, paid through x402 by the client library: what it would get, one signature, and what became of
// it. Its ticket is kept in the browser, so a page loaded again goes on with the same bet.
import { refresh } from "./live.js";
import { dropPending, keepPending, pending } from "./pending.js";
import { reached } from "./progress.js";
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
const form = byId("agent-bet");
const market = document.body.dataset.market;
const kept = `agent.${market}`;
let asked = 0;
let soon = 0;

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
      return;
    }
    const found = said.quote;
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

/** The library's client; `signer` is asked only when there is something to sign. */
async function client(library, address) {
  const signer = {
    address,
    async signTypedData(typed) {
      await connect();
      if (current().toLowerCase() !== address.toLowerCase()) throw new WalletError(`This bet is of ${address}. Connect that wallet to go on with it.`);
      await onChain(baseChain);
      say(byId("a-status"), "Confirm in your wallet…");
      return signTyped({ ...typed, types: { EIP712Domain: DOMAIN, ...typed.types } });
    },
  };
  return new library.Client({ baseUrl: location.origin, wallet: signer, token: baseChain.token, contract: baseChain.settler });
}

async function bet() {
  const chosen = wish();
  if (Number.isNaN(chosen.sizeUsd)) return;
  await guarded(async (library) => {
    await connect();
    say(byId("a-status"), "Preparing the bet…");
    const api = await client(library, current());
    await follow(library, api, await api.prepare(chosen));
  });
}

/** Goes on with a ticket until it is known what became of it. However often this happens, it is one bet. */
async function follow(library, api, ticket) {
  let known = ticket;
  const keep = (changed) => {
    known = changed;
    keepPending(kept, changed);
    if (changed.payment) reached(byId("a-progress"), "signed");
    say(byId("a-status"), "Sent. Waiting for its block…");
  };
  if (ticket.payment) reached(byId("a-progress"), "sent");
  let placed;
  try {
    placed = await api.place(ticket, { final: false, keep });
  } catch (error) {
    if (error instanceof library.OutcomeUnknown) {
      offerAgain(() => guarded(async () => follow(library, api, known)));
      throw new WalletError("It is not known yet whether the bet is in. It is safe to ask again: it counts once.");
    }
    forget(known);
    throw error;
  }
  reached(byId("a-progress"), "block");
  say(byId("a-status"), `In: ${usd(placed.receipt.sizeUsd)} USDC on ${placed.receipt.side}, ${placed.receipt.position.shares.toFixed(2)} shares.`, "good");
  receipt(placed.receipt);
  refresh();
  watch(api, placed.ticket);
}

/** Until its block cannot be undone; then the ticket has done its work. */
async function watch(api, ticket) {
  try {
    await api.place(ticket);
  } catch {
    return; // The stake is in its block, and the page asks again when it is loaded again.
  }
  reached(byId("a-progress"), "final");
  forget(ticket);
}

/** Unless another bet has been begun meanwhile. */
function forget(ticket) {
  if (pending(kept)?.idemKey === ticket.idemKey) dropPending(kept);
}

async function guarded(act) {
  const button = byId("a-bet");
  button.disabled = true;
  byId("a-receipt").replaceChildren();
  try {
    const library = await import("./betting.js");
    await act(library).catch((error) => {
      const said = error instanceof WalletError || error instanceof library.VpmError;
      reached(byId("a-progress"), "");
      say(byId("a-status"), said ? error.message : "That did not work; nothing was sent. Try again.", "bad");
    });
  } catch {
    say(byId("a-status"), "The service could not be reached. Nothing was signed; try again.", "bad");
  } finally {
    button.disabled = false;
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

function offerAgain(act) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Ask again";
  button.addEventListener("click", act);
  byId("a-receipt").replaceChildren(button);
}

if (form) {
  form.addEventListener("focusin", quoteSoon, { once: true }); // quotes are limited for each address: who only reads uses none
  form.addEventListener("input", quoteSoon);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    bet();
  });
  for (const button of form.querySelectorAll("[data-usd]")) {
    button.addEventListener("click", () => {
      byId("usd").value = button.dataset.usd;
      quote();
    });
  }
  const before = pending(kept);
  if (before) {
    say(byId("a-status"), "A bet of yours is under way…");
    guarded(async (library) => follow(library, await client(library, before.wallet), before));
  }
}

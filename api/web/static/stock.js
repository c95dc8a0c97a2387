// The bet panel: what an entry would meet, one signature, and what became of it; and resolving a market by oneself.
import { refresh } from "./live.js";
import { money, ordinal, percent, units, writeMoney } from "./money.js";
import { local } from "./times.js";
import { dropPending, keepPending, pending } from "./pending.js";
import { reached } from "./progress.js";
import { WalletError, balance, connect, current, mined, onChain, send, signTyped, stockChain } from "./wallet.js";

const SIDES = ["UP", "DOWN"];
const SCALE = 10n ** 18n;
const VALID_SECONDS = 600;
const TRIES = 20;
// After these the same bet may still be booked: it is kept and asked after again.
const WAITING = new Set(["busy", "relay_failed", "relay_unavailable"]);
const byId = (id) => document.getElementById(id);
const form = byId("bet-form");
let underWay = false; // a bet of which nobody knows yet what became: another one would take its place
const kept = `stock.${document.body.dataset.market}`;

function book() {
  const data = byId("bet-data").dataset;
  const big = (name) => BigInt(data[name]);
  return {
    accepting: data.accepting === "1",
    room: [big("upRoom"), big("downRoom")],
    principal: [big("upPrincipal"), big("downPrincipal")],
    min: big("min"),
    max: big("max"),
    fee: big("fee"),
    question: data.question,
  };
}

/** What the form says and what it would meet now. `problem` is a sentence when it cannot be bet. */
function quote() {
  const now = book();
  const side = Number(new FormData(form).get("side"));
  const stake = units(byId("amount").value);
  let problem = "";
  if (stake === null) problem = "Write an amount such as 5 or 12.50.";
  else if (stake < now.min) problem = `The smallest bet is ${money(now.min)} USDG.`;
  else if (stake > now.max) problem = `The largest bet is ${money(now.max)} USDG.`;
  const accepted = stake === null ? 0n : stake < now.room[side] ? stake : now.room[side];
  return { side, stake, accepted, back: (stake ?? 0n) - accepted, share: percent(accepted, now.principal[side] + accepted), problem, ...now };
}

/** What the accepted part is paid if its side wins once so much more was bet on the other one; each division rounds down. */
function paidAfter(found, more) {
  const comes = more < found.room[1 - found.side] ? more : found.room[1 - found.side];
  const grown = (comes * SCALE) / (found.principal[found.side] + found.accepted);
  const due = (found.accepted * (SCALE + grown)) / SCALE;
  return due - ((due - found.accepted) * found.fee) / 10_000n;
}

function show() {
  if (!form) return;
  const found = quote();
  form.hidden = !found.accepting;
  const wrong = Boolean(found.problem);
  byId("amount").setAttribute("aria-invalid", String(wrong));
  byId("amount-error").textContent = found.problem;
  const write = (element, value) => {
    if (wrong) element.textContent = "–";
    else writeMoney(element, value());
  };
  write(byId("q-accepted"), () => found.accepted);
  write(byId("q-back"), () => found.back);
  write(byId("q-least"), () => found.accepted);
  byId("q-share").textContent = wrong ? "–" : found.share;
  for (const each of form.querySelectorAll("[data-other]")) each.textContent = SIDES[1 - found.side];
  for (const each of form.querySelectorAll("[data-more]")) write(each, () => paidAfter(found, BigInt(each.dataset.more)));
  byId("bet-review").disabled = wrong || underWay || !found.accepting;
}

function say(element, text, tone = "") {
  element.textContent = text;
  element.className = `status ${tone}`;
}

async function review() {
  const status = byId("bet-status");
  byId("bet-actions").replaceChildren();
  const found = quote();
  if (found.problem) return;
  try {
    say(status, "Connecting to your wallet…");
    await connect();
    say(status, "Preparing the bet…");
    const typed = await typedData(found);
    say(status, "");
    if (await agreed(found, typed)) await sign(found, typed, status);
    else say(status, "Cancelled. Nothing was signed.");
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "The service could not be reached. Nothing was signed; try again.", "bad");
  }
}

async function typedData(found) {
  const query = new URLSearchParams({ marketId: document.body.dataset.market, outcome: found.side, amount: found.stake, from: current(), validSeconds: VALID_SECONDS });
  const answer = await fetch(`/api/relay/typed-data?${query}`);
  const body = await answer.json();
  if (!answer.ok) throw new WalletError(body.message);
  // What is about to be signed must be this bet and nothing else.
  const { message, domain, request } = body;
  const same = (one, other) => one.toLowerCase() === other.toLowerCase();
  if (
    message.value !== found.stake.toString() || !same(message.to, stockChain.settler) || !same(message.from, current()) ||
    !same(domain.verifyingContract, stockChain.token) || domain.chainId !== stockChain.id ||
    request.marketId !== document.body.dataset.market || request.outcome !== found.side
  ) throw new WalletError("What the service prepared is not the bet you chose. Nothing was signed.");
  return body;
}

function agreed(found, typed) {
  const dialog = byId("bet-dialog");
  byId("r-question").textContent = found.question;
  byId("r-side").textContent = SIDES[found.side];
  byId("r-amount").textContent = `${money(found.stake)} USDG`;
  byId("r-accepted").textContent = `${money(found.accepted)} USDG`;
  byId("r-back").textContent = `${money(found.back)} USDG`;
  byId("r-least").textContent = `${money(found.accepted)} USDG`;
  byId("r-wrong").textContent = "0.00 USDG";
  byId("r-value").textContent = `${money(found.stake)} USDG`;
  byId("r-from").textContent = `${current().slice(0, 6)}…${current().slice(-4)}`;
  byId("r-until").textContent = local(new Date(Number(typed.message.validBefore) * 1000));
  byId("r-balance").textContent = "–";
  say(byId("r-status"), "");
  return new Promise((done) => {
    let answer = false;
    byId("r-sign").onclick = async () => {
      answer = true;
      dialog.close();
    };
    byId("r-cancel").onclick = () => dialog.close();
    dialog.addEventListener("close", () => done(answer), { once: true });
    dialog.showModal();
    onChain(stockChain).then(balance).then((held) => {
      if (held === null) return;
      byId("r-balance").textContent = `${money(held)} USDG`;
      if (held < found.stake) say(byId("r-status"), "This wallet holds less than the bet. Add USDG first.", "bad");
    }).catch((error) => say(byId("r-status"), error.message, "bad"));
  });
}

async function sign(found, typed, status) {
  await onChain(stockChain);
  say(status, "Confirm in your wallet…");
  const { domain, types, primaryType, message } = typed;
  const signature = await signTyped({ domain, types, primaryType, message });
  await relay({ ...typed.request, signature }, found, status);
}

/**
 * Sends the same body until it is known what became of it: a signature is accepted once, so it never bets twice. Kept in the
 * browser until then, so a page loaded again goes on with it.
 */
async function relay(body, found, status) {
  keepPending(kept, { body, side: found.side, stake: String(found.stake) });
  underWay = true;
  show();
  const line = byId("bet-progress");
  reached(line, "signed");
  say(status, "Sending…");
  try {
    for (let attempt = 0; attempt < TRIES; attempt += 1) {
      let answer;
      let said;
      try {
        answer = await fetch("/api/relay/enter", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
        said = await answer.json();
      } catch {
        say(status, "No connection. The same bet is sent again…");
        await pause(2000);
        continue;
      }
      // When the answer to an earlier try was lost, this one is refused as used and says that the bet is booked.
      if (said.receipt === "confirmed" && (answer.ok || said.error === "already_used")) {
        dropPending(kept);
        reached(line, "block", said.blockNumber ? `in block ${said.blockNumber}` : "in a block");
        receipt(said.txHash);
        say(status, `Confirmed${said.positionId ? `: position ${ordinal(said.positionId)}` : ""}. ${money(found.stake)} USDG on ${SIDES[found.side]}.`, "good");
        await refresh();
        return;
      }
      if (answer.ok && said.receipt === "reverted") {
        dropPending(kept);
        reached(line, "");
        say(status, "The contract refused it, and nothing was taken. The book may have moved; try again.", "bad");
        return;
      }
      if (answer.ok || WAITING.has(said.error)) {
        if (answer.ok) reached(line, "sent");
        say(status, answer.ok ? "Sent. Waiting for its block…" : said.message);
        if (said.error === "relay_unavailable") offerEscape(said.escapeKit, status);
        await pause(1000 * (said.retryAfter ?? 2));
        continue;
      }
      dropPending(kept);
      reached(line, "");
      say(status, said.message ?? "It was refused.", "bad");
      offerEscape(said.escapeKit, status);
      return;
    }
    say(status, "Still waiting for its block. It is safe to send it again.");
    const again = document.createElement("button");
    again.type = "button";
    again.className = "quiet";
    again.textContent = "Send the same bet again";
    again.onclick = () => {
      byId("bet-actions").replaceChildren();
      relay(body, found, status);
    };
    byId("bet-actions").replaceChildren(again);
  } finally {
    underWay = false;
    show();
  }
}

/** The transaction, to keep. */
function receipt(hash) {
  if (!hash) return;
  const shown = document.createElement("code");
  shown.className = "hash";
  shown.title = hash;
  shown.textContent = `${hash.slice(0, 6)}…${hash.slice(-4)}`;
  const words = document.createElement("p");
  words.className = "hint";
  words.append("Transaction ", shown);
  byId("bet-actions").replaceChildren(words);
}

/** When the relay cannot send it, its call can be sent by the wallet itself. */
function offerEscape(kit, status) {
  if (!kit) return;
  const own = document.createElement("button");
  own.type = "button";
  own.className = "quiet";
  own.textContent = "Send it from my wallet (costs gas)";
  own.onclick = () => act(kit.to, kit.data, status, "The bet is in.");
  byId("bet-actions").replaceChildren(own);
}

async function act(to, data, status, done) {
  const button = document.activeElement;
  status.dataset.busy = "";
  try {
    await connect();
    await onChain(stockChain);
    say(status, "Confirm in your wallet…");
    const hash = await send(to, data);
    say(status, "Sent. Waiting for its block…");
    const receipt = await mined(hash);
    if (receipt === null) say(status, `Not mined yet. The transaction is ${hash}.`);
    else if (Number(receipt.status) === 1) say(status, done, "good");
    else say(status, "It was refused: somebody may have been faster.", "bad");
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "That did not work; try again.", "bad");
  } finally {
    delete status.dataset.busy;
    button?.blur?.();
    setTimeout(refresh, 500);
  }
}

function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

if (form) {
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    review();
  });
  for (const button of form.querySelectorAll("[data-amount]")) {
    button.addEventListener("click", () => {
      byId("amount").value = button.dataset.amount;
      show();
    });
  }
  document.addEventListener("page:fresh", show);
  show();
  const before = pending(kept);
  if (before) relay(before.body, { side: before.side, stake: BigInt(before.stake) }, byId("bet-status"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-send]");
  if (!button) return;
  const status = button.closest("section").querySelector("[data-status]");
  act(button.dataset.to, button.dataset.send, status, "Done. The market is settled.");
});

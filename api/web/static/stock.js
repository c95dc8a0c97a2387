// A stock market's page: the bet panel with its quote, the signature and the progress of the bet; and settling the market
// with the visitor's own wallet.
import { isBusy, setBusy } from "./busy.js";
import { refresh } from "./live.js";
import { money, percent, units, writeMoney } from "./money.js";
import { follow, pendingBet } from "./relay.js";
import { say } from "./signing.js";
import { local } from "./times.js";
import { WalletError, balance, connect, current, mined, onChain, send, signTyped, stockChain } from "./wallet.js";

const SIDES = ["UP", "DOWN"];
const SCALE = 10n ** 18n;
const VALID_SECONDS = 600;
const byId = (id) => document.getElementById(id);
const form = byId("bet-form");
let underWay = false; // a bet whose outcome is unknown: another one would take its slot
let isSigning = false; // the wallet has been asked for a signature

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

/** Reads the form and works out what the market would accept now. `problem` is a sentence when the bet is not possible. */
function quote() {
  const now = book();
  const side = Number(new FormData(form).get("side"));
  const stake = units(byId("amount").value);
  let problem = "";
  if (stake === null) problem = "Enter an amount such as 5 or 12.50.";
  else if (stake < now.min) problem = `The smallest bet is ${money(now.min)} USDG.`;
  else if (stake > now.max) problem = `The largest bet is ${money(now.max)} USDG.`;
  const accepted = stake === null ? 0n : stake < now.room[side] ? stake : now.room[side];
  return { side, stake, accepted, back: (stake ?? 0n) - accepted, share: percent(accepted, now.principal[side] + accepted), problem, ...now };
}

/** Returns the payout of the accepted part if its side wins after `more` was bet on the other side; divisions round down. */
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
  setBusy(byId("bet-review"), wrong || underWay || isSigning || !found.accepting);
  askLikely(wrong ? null : found);
}

let askedLikely = ""; // the bet whose likely payout is shown or has been requested
let waitingLikely = 0;

/** Requests the likely payout, a moment after the last change of the form. */
function askLikely(found) {
  const bet = found && found.accepting ? `${found.side} ${found.stake} ${found.principal} ${found.room}` : "";
  if (bet === askedLikely) return;
  askedLikely = bet;
  clearTimeout(waitingLikely);
  showLikely("q", null);
  if (!bet) return;
  waitingLikely = setTimeout(async () => {
    const query = new URLSearchParams({ marketId: document.body.dataset.market, outcome: found.side, amount: found.stake });
    const response = await fetch(`/api/relay/typed-data?${query}`).catch(() => null);
    const body = response?.ok ? await response.json().catch(() => null) : null;
    if (bet === askedLikely) showLikely("q", body?.quote ?? null);
  }, 300);
}

function showLikely(where, likely) {
  const isKnown = likely && likely.breakEvenPct !== null;
  if (isKnown) writeMoney(byId(`${where}-likely`), BigInt(likely.likelyPayout));
  else byId(`${where}-likely`).textContent = "–";
  byId(`${where}-even`).textContent = isKnown ? `${likely.breakEvenPct.toFixed(1)}%` : "–";
}

/** Returns a bet on this market that another tab has begun and whose outcome is unknown. That bet comes first. */
function otherTabsBet() {
  const begun = pendingBet();
  return begun && !begun.landed ? begun : null;
}

async function review() {
  const status = byId("bet-status");
  byId("bet-actions").replaceChildren();
  const found = quote();
  if (found.problem) return;
  const begun = otherTabsBet();
  if (begun) {
    relay(begun);
    return;
  }
  isSigning = true; // until the wallet has responded: a second signature would be a second bet
  show();
  try {
    say(status, "Connecting to your wallet…");
    await connect();
    say(status, "Preparing the bet…");
    const typed = await typedData(found);
    say(status, "");
    if (await confirmed(found, typed)) await sign(found, typed, status);
    else say(status, "Cancelled. Nothing was signed.");
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "The service could not be reached. Nothing was signed; try again.", "bad");
  } finally {
    isSigning = false;
    show();
  }
}

async function typedData(found) {
  const query = new URLSearchParams({ marketId: document.body.dataset.market, outcome: found.side, amount: found.stake, from: current(), validSeconds: VALID_SECONDS });
  const response = await fetch(`/api/relay/typed-data?${query}`);
  const body = await response.json();
  if (!response.ok) throw new WalletError(body.message);
  // The message to sign must be this bet and nothing else.
  const { message, domain, request } = body;
  const same = (one, other) => one.toLowerCase() === other.toLowerCase();
  if (
    message.value !== found.stake.toString() || !same(message.to, stockChain.settler) || !same(message.from, current()) ||
    !same(domain.verifyingContract, stockChain.token) || domain.chainId !== stockChain.id ||
    request.marketId !== document.body.dataset.market || request.outcome !== found.side
  ) throw new WalletError("The service prepared a different bet from the one you chose. Nothing was signed.");
  return body;
}

function confirmed(found, typed) {
  const dialog = byId("bet-dialog");
  byId("r-question").textContent = found.question;
  byId("r-side").textContent = SIDES[found.side];
  byId("r-amount").textContent = `${money(found.stake)} USDG`;
  byId("r-accepted").textContent = `${money(found.accepted)} USDG`;
  byId("r-back").textContent = `${money(found.back)} USDG`;
  byId("r-least").textContent = `${money(found.accepted)} USDG`;
  showLikely("r", typed.quote);
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
    onChain(stockChain).then(balance).then((funds) => {
      if (funds === null) return;
      byId("r-balance").textContent = `${money(funds)} USDG`;
      if (funds < found.stake) say(byId("r-status"), "This wallet holds less than the bet. Add USDG first.", "bad");
    }).catch((error) => say(byId("r-status"), error.message, "bad"));
  });
}

async function sign(found, typed, status) {
  await onChain(stockChain);
  say(status, "Confirm in your wallet…");
  const { domain, types, primaryType, message } = typed;
  const signature = await signTyped({ domain, types, primaryType, message });
  if (otherTabsBet()) throw new WalletError("A bet from another tab is still pending. This one was not sent; try again once the other is settled.");
  relay({ body: { ...typed.request, signature }, nonce: typed.nonce, side: SIDES[found.side], stake: String(found.stake) });
}

/** Follows a signed bet until its outcome is known; no other bet can be made before. */
async function relay(bet) {
  underWay = true;
  show();
  await follow(bet, offerEscape);
  underWay = false;
  show();
}

/** Offers to send the bet from the visitor's wallet when the relay cannot. */
function offerEscape(kit, then) {
  if (!kit) return;
  const actions = byId("bet-actions");
  // Every response of the relay carries the call again, while the wallet may already be asking to send it.
  if (actions.firstElementChild?.dataset.call === kit.data) return;
  const own = document.createElement("button");
  own.type = "button";
  own.className = "quiet";
  own.textContent = "Send it from my wallet (costs gas)";
  own.dataset.call = kit.data;
  own.onclick = async () => {
    const sending = act(kit.to, kit.data, byId("bet-status"), "Your bet is placed.");
    own.disabled = true; // a second transaction could only fail and cost gas
    if (await sending) then();
    own.disabled = false;
  };
  actions.replaceChildren(own);
}

/** Sends a transaction from the visitor's wallet. Returns true once it has succeeded in a block. */
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
    if (receipt === null) say(status, `Not in a block yet. The transaction is ${hash}.`);
    else if (Number(receipt.status) === 1) {
      say(status, done, "good");
      return true;
    }
    else say(status, "The transaction failed: someone else may have sent it first.", "bad");
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "That did not work; try again.", "bad");
  } finally {
    delete status.dataset.busy;
    button?.blur?.();
    setTimeout(refresh, 500);
  }
  return false;
}

if (form) {
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!isBusy(byId("bet-review"))) review();
  });
  for (const button of form.querySelectorAll("[data-amount]")) {
    button.addEventListener("click", () => {
      byId("amount").value = button.dataset.amount;
      show();
    });
  }
  document.addEventListener("page:fresh", show);
  show();
}
const before = pendingBet();
if (before) relay(before);

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-send]");
  if (!button) return;
  const status = button.closest("section").querySelector("[data-status]");
  act(button.dataset.to, button.dataset.send, status, "Done. The market is settled.");
});

// The bet panel: what an entry would meet, one signature, and what became of it; and resolving a market by oneself.
import { hold, isHeld } from "./held.js";
import { refresh } from "./live.js";
import { money, percent, units, writeMoney } from "./money.js";
import { follow, keptBet } from "./relayed.js";
import { say } from "./signing.js";
import { local } from "./times.js";
import { WalletError, balance, connect, current, mined, onChain, send, signTyped, stockChain } from "./wallet.js";

const SIDES = ["UP", "DOWN"];
const SCALE = 10n ** 18n;
const VALID_SECONDS = 600;
const byId = (id) => document.getElementById(id);
const form = byId("bet-form");
let underWay = false; // a bet whose outcome is not known yet: another one would take its slot
let isAsked = false; // a wallet, for a signature

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
  hold(byId("bet-review"), wrong || underWay || isAsked || !found.accepting);
  askLikely(wrong ? null : found);
}

let askedLikely = ""; // the bet whose likely payout is shown, or asked for
let waitingLikely = 0;

/** What the service expects the bet to be paid, a moment after the last change of it. */
function askLikely(found) {
  const bet = found && found.accepting ? `${found.side} ${found.stake} ${found.principal} ${found.room}` : "";
  if (bet === askedLikely) return;
  askedLikely = bet;
  clearTimeout(waitingLikely);
  showLikely("q", null);
  if (!bet) return;
  waitingLikely = setTimeout(async () => {
    const query = new URLSearchParams({ marketId: document.body.dataset.market, outcome: found.side, amount: found.stake });
    const answer = await fetch(`/api/relay/typed-data?${query}`).catch(() => null);
    const body = answer?.ok ? await answer.json().catch(() => null) : null;
    if (bet === askedLikely) showLikely("q", body?.quote ?? null);
  }, 300);
}

function showLikely(where, likely) {
  const is = likely && likely.breakEvenPct !== null;
  if (is) writeMoney(byId(`${where}-likely`), BigInt(likely.likelyPayout));
  else byId(`${where}-likely`).textContent = "–";
  byId(`${where}-even`).textContent = is ? `${likely.breakEvenPct.toFixed(1)}%` : "–";
}

/** A bet on this market that another tab has begun and whose outcome is not known yet: it comes first. */
function ofAnotherTab() {
  const begun = keptBet();
  return begun && !begun.landed ? begun : null;
}

async function review() {
  const status = byId("bet-status");
  byId("bet-actions").replaceChildren();
  const found = quote();
  if (found.problem) return;
  const begun = ofAnotherTab();
  if (begun) {
    relay(begun);
    return;
  }
  isAsked = true; // until the wallet has answered: a second question would be a second bet
  show();
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
  } finally {
    isAsked = false;
    show();
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
  if (ofAnotherTab()) throw new WalletError("A bet from another tab is on its way. This one was not sent; it can be made once that one is known.");
  relay({ body: { ...typed.request, signature }, nonce: typed.nonce, side: SIDES[found.side], stake: String(found.stake) });
}

/** What was signed, until it is known what became of it; before that another bet would take its place. */
async function relay(bet) {
  underWay = true;
  show();
  await follow(bet, offerEscape);
  underWay = false;
  show();
}

/** When the relay cannot send it, its call can be sent by the wallet itself. */
function offerEscape(kit, then) {
  if (!kit) return;
  const actions = byId("bet-actions");
  // Each answer of the relay brings the call again, while the wallet may be asked for it already.
  if (actions.firstElementChild?.dataset.call === kit.data) return;
  const own = document.createElement("button");
  own.type = "button";
  own.className = "quiet";
  own.textContent = "Send it from my wallet (costs gas)";
  own.dataset.call = kit.data;
  own.onclick = async () => {
    const sending = act(kit.to, kit.data, byId("bet-status"), "The bet is in.");
    own.disabled = true; // a second one could only be refused, and cost its gas
    if (await sending) then();
    own.disabled = false;
  };
  actions.replaceChildren(own);
}

/** True once it is mined with success. */
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
    else if (Number(receipt.status) === 1) {
      say(status, done, "good");
      return true;
    }
    else say(status, "It was refused: somebody may have been faster.", "bad");
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
    if (!isHeld(byId("bet-review"))) review();
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
const before = keptBet();
if (before) relay(before);

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-send]");
  if (!button) return;
  const status = button.closest("section").querySelector("[data-status]");
  act(button.dataset.to, button.dataset.send, status, "Done. The market is settled.");
});

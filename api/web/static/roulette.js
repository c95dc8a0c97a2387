// The wheel: turns to the pocket when it is drawn, takes signed bets, and recomputes a spin from its seed and beacon.
import { hold, isHeld } from "./held.js";
import { refresh } from "./live.js";
import { once } from "./once.js";
import { betMessage, issuedAt, post, refused, say, size } from "./signing.js";
import { WalletError, connect, current, signText } from "./wallet.js";

const byId = (id) => document.getElementById(id);
const WHOLE_TURNS = 3;
const FAIR_BELOW = 37 * Math.floor(2 ** 32 / 37);
let shown = ""; // the round whose pocket the wheel shows
let turned = 0; // degrees that the wheel has gone since the page was opened

// ---------------------------------------------------------------- the wheel

function turnWheel() {
  const { round, phase, pocket, last } = byId("round").dataset;
  const first = shown === "";
  if (pocket === "" ? first : shown !== round) {
    shown = pocket === "" ? "before" : round;
    point(pocket || last, first, pocket === "" ? "last round" : `round ${round}`);
  }
  byId("wheel-turn").classList.toggle("rolling", phase === "spin" && pocket === "");
}

/** Stops a rolling wheel where it is, so that it slows down from there and does not jump. */
function caught(wheel) {
  turned += Number.parseFloat(getComputedStyle(wheel).rotate) || 0;
  wheel.classList.remove("rolling", "turning");
  wheel.style.transform = `rotate(${turned}deg)`;
  wheel.getBoundingClientRect(); // the browser has it there before it turns on
}

/** Brings a pocket under the pointer: turning, or at once when the page has just been opened. The result is shown once the
 * wheel stands still. */
function point(pocket, atOnce, word) {
  const pockets = [...document.querySelectorAll(".pocket")];
  const place = pockets.findIndex((each) => each.dataset.number === pocket);
  if (place < 0) return;
  const wheel = byId("wheel-turn");
  const panel = wheel.closest(".wheel-panel");
  caught(wheel);
  const ahead = (((-(place * 360) / 37 - turned) % 360) + 360) % 360;
  turned += ahead + (atOnce ? 0 : WHOLE_TURNS * 360);
  wheel.classList.toggle("turning", !atOnce);
  wheel.style.transform = `rotate(${turned}deg)`;
  const mine = turned;
  const settle = () => {
    if (turned !== mine) return; // it turns on to another one
    panel.classList.remove("undecided");
    for (const each of pockets) each.classList.toggle("hit", each.dataset.number === pocket);
    byId("wheel-number").textContent = pocket;
    byId("wheel-word").textContent = word;
  };
  panel.classList.add("undecided");
  Promise.allSettled(wheel.getAnimations().map((each) => each.finished)).then(settle); // none where nothing may move
}

// ---------------------------------------------------------------- betting

let asked = 0;
let busy = false; // a bet is on its way

/** What is chosen on the table; a number may be bet not to come. */
function betKey() {
  const chosen = document.querySelector('#bet-table input[name="bet"]:checked');
  const miss = byId("bet-miss");
  miss.disabled = !chosen.dataset.miss;
  return miss.checked && chosen.dataset.miss ? chosen.dataset.miss : chosen.value;
}

/** Nothing can be laid on the table once the ball rolls; its button says so, and works again with the next round. */
function openTable() {
  const open = byId("round").dataset.phase === "bet";
  const button = byId("place");
  byId("bet-table").disabled = !open;
  hold(button, busy || !open);
  button.textContent = open || busy ? "Sign and bet" : "Wait for the next round";
}

async function quote() {
  const amount = size(byId("stake").value);
  byId("stake-error").textContent = amount === null ? "Write an amount with at most two decimals, such as 25 or 12.5." : "";
  byId("stake").setAttribute("aria-invalid", String(amount === null));
  if (amount === null || byId("round").dataset.phase !== "bet") return;
  const mine = ++asked;
  try {
    // With its player, whose own bets are in it from the moment they are laid.
    const asks = { betKey: betKey(), simulate: true, walletAddress: current()?.toLowerCase() };
    const said = await post("/roulette/bet", asks, "stakePaper", amount);
    if (mine !== asked) return;
    if (!said.ok) {
      byId("stake-error").textContent = said.error === "round_closed" ? "" : said.message;
      return;
    }
    byId("p-true").textContent = `${said.receipt.truePct}%`;
    byId("p-crowd").textContent = `${said.receipt.crowdPctAfter}%`;
    byId("p-paid").textContent = said.receipt.payIfWinPaper.toFixed(2);
  } catch {
    // No connection: the quote comes with the next change.
  }
}

const named = ({ amount, fields }) => `${amount} pUSDC on ${fields.betKey} in round ${fields.roundNo}`;
const bets = once("cup.bet", byId("play-status"), {
  sign: signed,
  send: ({ amount, fields }) => post("/roulette/bet", fields, "stakePaper", amount), // a wallet's bet on a key counts once in a round
  again: (open) => `No connection. The same bet is sent again: ${named(open)}…`,
  good: (open, { balancePaper }) => `In: ${named(open)}. Balance ${balancePaper.toFixed(2)}.`,
  bad: (open, said) => (said.error === "round_closed" ? `It came too late, and nothing was staked: ${named(open)}.` : refused(said, "staked")),
});

async function bet() {
  if (busy) return;
  busy = true;
  openTable();
  await bets.go();
  busy = false;
  openTable();
}

async function signed() {
  const amount = size(byId("stake").value);
  if (amount === null) return null;
  await connect();
  const wallet = current().toLowerCase();
  const claimed = await post("/wallet", { walletAddress: wallet });
  if (!claimed.ok) throw new WalletError(claimed.message);
  await refresh();
  const { round, phase } = byId("round").dataset;
  if (phase !== "bet") throw new WalletError("Betting is over for this round. The next begins in a few seconds.");
  const key = betKey();
  const issued = issuedAt();
  say(byId("play-status"), `Confirm in your wallet: ${amount} pUSDC on ${key} in round ${round}…`);
  const signature = await signText(betMessage(wallet, round, key, amount, issued));
  return { amount, fields: { walletAddress: wallet, betKey: key, roundNo: Number(round), issuedAt: issued, signature } };
}

// ---------------------------------------------------------------- checking a spin

function bytes(hex) {
  return Uint8Array.from(hex.slice(2).match(/../g), (pair) => parseInt(pair, 16));
}

function hexOf(buffer) {
  return `0x${[...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The pocket that a seed and a beacon give, as the service must have drawn it. */
export async function pocketOf(seed, round, beacon) {
  const key = await crypto.subtle.importKey("raw", bytes(seed), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  for (let again = 0; ; again += 1) {
    const text = again ? `${round}:${beacon}:${again}` : `${round}:${beacon}`;
    const words = new DataView(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text)));
    for (let at = 0; at < 32; at += 4) {
      const word = words.getUint32(at);
      if (word < FAIR_BELOW) return word % 37;
    }
  }
}

const shownBets = new Map(); // by round: the hash of its bets as it was shown before the draw

function noteBets() {
  const { round, pocket, bets: hash } = byId("round").dataset;
  if (pocket === "" && hash && !shownBets.has(round)) shownBets.set(round, hash);
}

async function check({ round, pocket, seed, commitment, beacon, bets: hash }) {
  const noted = shownBets.get(round);
  const status = byId("check-status");
  const kept = hexOf(await crypto.subtle.digest("SHA-256", bytes(seed))) === commitment;
  const drawn = await pocketOf(seed, round, beacon);
  if (noted && noted !== hash) say(status, `Round ${round} does NOT hold: the hash of its bets was ${noted} before the draw.`, "bad");
  else if (kept && drawn === Number(pocket)) say(status, `Round ${round} holds: the seed is the one committed to, and it gives pocket ${drawn}.${noted ? " Its bets are those of the close." : ""}`, "good");
  else if (!kept) say(status, `Round ${round} does NOT hold: the seed is not the one committed to.`, "bad");
  else say(status, `Round ${round} does NOT hold: the seed gives pocket ${drawn}, not ${pocket}.`, "bad");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-check]");
  if (button) check(button.dataset);
});
byId("roulette-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!isHeld(byId("place"))) bet();
});
byId("roulette-form").addEventListener("input", quote);
document.addEventListener("page:fresh", () => {
  noteBets();
  turnWheel();
  openTable();
});
byId("roulette-form").addEventListener("focusin", () => asked || quote()); // who only reads needs none
noteBets();
turnWheel();
openTable();
if (bets.isOpen()) bet();

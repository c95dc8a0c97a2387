// The wheel: turns to the drawn pocket, takes signed bets, and recomputes a spin from its seed and beacon.
import { isBusy, setBusy } from "./busy.js";
import { refresh } from "./live.js";
import { submitOnce } from "./submit_once.js";
import { betMessage, issuedAt, post, refused, say, size } from "./signing.js";
import { WalletError, connect, current, signText } from "./wallet.js";

const byId = (id) => document.getElementById(id);
const WHOLE_TURNS = 3;
const FAIR_BELOW = 37 * Math.floor(2 ** 32 / 37);
let shown = ""; // the round whose pocket the wheel shows
let turned = 0; // degrees that the wheel has turned since the page was opened

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

/** Stops a rolling wheel where it is, so that it slows down from there instead of jumping. */
function caught(wheel) {
  turned += Number.parseFloat(getComputedStyle(wheel).rotate) || 0;
  wheel.classList.remove("rolling", "turning");
  wheel.style.transform = `rotate(${turned}deg)`;
  wheel.getBoundingClientRect(); // makes the browser apply this before the next turn
}

/** Brings a pocket under the pointer: turning, or at once when the page has just opened. Shows the result once the wheel
 * stands still. */
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
    if (turned !== mine) return; // it is turning to another pocket
    panel.classList.remove("undecided");
    for (const each of pockets) each.classList.toggle("hit", each.dataset.number === pocket);
    byId("wheel-number").textContent = pocket;
    byId("wheel-word").textContent = word;
  };
  panel.classList.add("undecided");
  Promise.allSettled(wheel.getAnimations().map((each) => each.finished)).then(settle); // none with reduced motion
}

// ---------------------------------------------------------------- betting

let asked = 0;
let busy = false; // a bet is on its way

/** Returns the key chosen on the table. A bet on a number may also be that the number does not come. */
function betKey() {
  const chosen = document.querySelector('#bet-table input[name="bet"]:checked');
  const miss = byId("bet-miss");
  miss.disabled = !chosen.dataset.miss;
  return miss.checked && chosen.dataset.miss ? chosen.dataset.miss : chosen.value;
}

/** Closes the table and its button while the ball rolls, and opens them with the next round. */
function openTable() {
  const open = byId("round").dataset.phase === "bet";
  const button = byId("place");
  byId("bet-table").disabled = !open;
  setBusy(button, busy || !open);
  button.textContent = open || busy ? "Sign and bet" : "Wait for the next round";
}

async function quote() {
  const amount = size(byId("stake").value);
  byId("stake-error").textContent = amount === null ? "Enter an amount with at most two decimals, such as 25 or 12.5." : "";
  byId("stake").setAttribute("aria-invalid", String(amount === null));
  if (amount === null || byId("round").dataset.phase !== "bet") return;
  const mine = ++asked;
  try {
    // With the player's address, the pools in the response include the player's own newest bets.
    const asks = { betKey: betKey(), simulate: true, walletAddress: current()?.toLowerCase() };
    const reply = await post("/roulette/bet", asks, "stakePaper", amount);
    if (mine !== asked) return;
    if (!reply.ok) {
      byId("stake-error").textContent = reply.error === "round_closed" ? "" : reply.message;
      return;
    }
    byId("p-true").textContent = `${reply.receipt.truePct}%`;
    byId("p-crowd").textContent = `${reply.receipt.crowdPctAfter}%`;
    byId("p-paid").textContent = reply.receipt.payIfWinPaper.toFixed(2);
  } catch {
    // No connection: the next change of the form asks again.
  }
}

const named = ({ amount, fields }) => `${amount} pUSDC on ${fields.betKey} in round ${fields.roundNo}`;
const bets = submitOnce("cup.bet", byId("play-status"), {
  sign: signed,
  send: ({ amount, fields }) => post("/roulette/bet", fields, "stakePaper", amount), // a wallet's bet on a key counts once in a round
  again: (open) => `No connection. Sending the same bet again: ${named(open)}…`,
  good: (open, { balancePaper }) => `Bet placed: ${named(open)}. Balance ${balancePaper.toFixed(2)}.`,
  bad: (open, reply) => (reply.error === "round_closed" ? `Too late for this round. Nothing was staked: ${named(open)}.` : refused(reply, "staked")),
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

/** Recomputes the pocket that the service must have drawn from a seed and a beacon. */
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

const shownBets = new Map(); // by round: the hash of its bets that was shown before the draw

function noteBets() {
  const { round, pocket, bets: hash } = byId("round").dataset;
  if (pocket === "" && hash && !shownBets.has(round)) shownBets.set(round, hash);
}

async function check({ round, pocket, seed, commitment, beacon, bets: hash }) {
  const noted = shownBets.get(round);
  const status = byId("check-status");
  const holds = hexOf(await crypto.subtle.digest("SHA-256", bytes(seed))) === commitment;
  const drawn = await pocketOf(seed, round, beacon);
  if (noted && noted !== hash) say(status, `Round ${round} FAILS the check: before the draw the hash of its bets was ${noted}.`, "bad");
  else if (holds && drawn === Number(pocket)) say(status, `Round ${round} is fair: the seed matches the commitment and gives pocket ${drawn}.${noted ? " The bets are the ones shown before the draw." : ""}`, "good");
  else if (!holds) say(status, `Round ${round} FAILS the check: the seed does not match the commitment.`, "bad");
  else say(status, `Round ${round} FAILS the check: the seed gives pocket ${drawn}, not ${pocket}.`, "bad");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-check]");
  if (button) check(button.dataset);
});
byId("roulette-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!isBusy(byId("place"))) bet();
});
byId("roulette-form").addEventListener("input", quote);
document.addEventListener("page:fresh", () => {
  noteBets();
  turnWheel();
  openTable();
});
byId("roulette-form").addEventListener("focusin", () => asked || quote()); // a visitor who only reads needs no quote
noteBets();
turnWheel();
openTable();
if (bets.isOpen()) bet();

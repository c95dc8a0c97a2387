// The cup: claims paper money once, and makes paper trades signed by the wallet.
import { isBusy, setBusy } from "./busy.js";
import { refresh } from "./live.js";
import { submitOnce } from "./submit_once.js";
import { issuedAt, post, refused, say, size, tradeMessage } from "./signing.js";
import { WalletError, connect, current, signText } from "./wallet.js";

const HALTED = "cup_agent_trades_halted"; // until the wallet is enrolled; the same trade is valid afterwards
const byId = (id) => document.getElementById(id);
const market = byId("paper-market");
let asked = 0;

byId("claim").addEventListener("click", async () => {
  const status = byId("claim-status");
  try {
    await connect();
    const reply = await post("/wallet", { walletAddress: current().toLowerCase() });
    if (!reply.ok) throw new WalletError(reply.message);
    say(status, reply.minted ? "You have 10,000 pUSDC." : `You have already claimed. Your balance is ${reply.balancePaper.toFixed(2)} pUSDC.`, "good");
    await refresh();
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "The service could not be reached; try again.", "bad");
  }
});

function sides() {
  const listed = market.selectedOptions[0]?.dataset.outcomes ?? "";
  const outcomes = listed ? listed.split("\n").map((line) => line.split("\t")) : [];
  byId("paper-side").replaceChildren(
    ...outcomes.map(([key, label]) => {
      const option = document.createElement("option");
      option.value = key;
      option.textContent = label;
      return option;
    }),
  );
}

async function quote() {
  const amount = size(byId("paper-size").value);
  byId("paper-error").textContent = amount === null ? "Enter an amount with at most two decimals." : "";
  if (amount === null || !market.value) return;
  const mine = ++asked;
  try {
    const query = new URLSearchParams({ side: byId("paper-side").value, sizePaper: amount });
    const response = await fetch(`/api/cup/v1/markets/${encodeURIComponent(market.value)}/quote?${query}`);
    const reply = await response.json();
    if (mine !== asked) return;
    if (!response.ok) {
      byId("paper-error").textContent = reply.message;
      return;
    }
    byId("paper-shares").textContent = reply.shares.toFixed(2);
    byId("paper-paid").textContent = reply.projectedPayoutPaper.toFixed(2);
  } catch {
    // No connection: the next change of the form asks again.
  }
}

const trades = submitOnce("cup.trade", byId("paper-status"), {
  sign: signed,
  send: ({ amount, fields }) => post("/trade", fields, "sizePaper", amount), // its tradeId counts once
  again: () => "No connection. Sending the same trade again…",
  good: ({ amount, side }, { shares, balancePaper }) => `Done: ${amount} pUSDC on ${side}, ${shares} shares. Balance ${balancePaper.toFixed(2)} pUSDC.`,
  bad: (_, reply) => refused(reply, "traded"),
  rests: (reply) => reply?.error === HALTED,
});

async function trade() {
  const button = byId("paper-form").querySelector("button");
  if (isBusy(button)) return;
  setBusy(button, true);
  await trades.go();
  setBusy(button, false);
}

async function signed() {
  const amount = size(byId("paper-size").value);
  if (amount === null || !market.value) return null;
  await connect();
  const wallet = current().toLowerCase();
  const [slug, side, id, issued] = [market.value, byId("paper-side").value, crypto.randomUUID(), issuedAt()];
  say(byId("paper-status"), `Confirm in your wallet: ${amount} pUSDC on ${side}…`);
  const signature = await signText(tradeMessage(wallet, slug, side, amount, id, issued));
  return { amount, side, fields: { walletAddress: wallet, slug, side, tradeId: id, issuedAt: issued, signature } };
}

market.addEventListener("input", sides); // before the form's own listener, so that the quote asks for a side that exists
byId("paper-form").addEventListener("input", quote);
byId("paper-form").addEventListener("submit", (event) => {
  event.preventDefault();
  trade();
});
byId("paper-form").addEventListener("focusin", () => asked || quote()); // a visitor who only reads needs no quote
sides();
if (trades.isOpen()) trade();

// The cup: claiming paper money once, and paper trades signed by the wallet.
import { refresh } from "./live.js";
import { dropPending, keepPending, pending as keptPending } from "./pending.js";
import { issuedAt, post, say, size, tradeMessage } from "./signing.js";
import { WalletError, connect, current, signText } from "./wallet.js";

const TRIES = 10;
const byId = (id) => document.getElementById(id);
const market = byId("paper-market");
let asked = 0;
const KEPT = "cup.trade";
let pending = keptPending(KEPT); // a signed trade of which nobody knows yet what became of it

byId("claim").addEventListener("click", async () => {
  const status = byId("claim-status");
  try {
    await connect();
    const said = await post("/wallet", { walletAddress: current().toLowerCase() });
    if (!said.ok) throw new WalletError(said.message);
    say(status, said.minted ? "10,000 pUSDC are yours." : `Claimed before. Your balance is ${said.balancePaper.toFixed(2)} pUSDC.`, "good");
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
  byId("paper-error").textContent = amount === null ? "Write an amount with at most two decimals." : "";
  if (amount === null || !market.value) return;
  const mine = ++asked;
  try {
    const query = new URLSearchParams({ side: byId("paper-side").value, sizePaper: amount });
    const answer = await fetch(`/api/cup/v1/markets/${encodeURIComponent(market.value)}/quote?${query}`);
    const said = await answer.json();
    if (mine !== asked) return;
    if (!answer.ok) {
      byId("paper-error").textContent = said.message;
      return;
    }
    byId("paper-shares").textContent = said.shares.toFixed(2);
    byId("paper-paid").textContent = said.projectedPayoutPaper.toFixed(2);
  } catch {
    // No connection: the quote comes with the next change.
  }
}

/** Signs what the form says, unless a trade is still pending: that one comes first, for a new one might be its double. */
async function trade() {
  const status = byId("paper-status");
  const button = byId("paper-form").querySelector("button");
  if (button.disabled) return;
  button.disabled = true;
  try {
    pending ??= await signed(status);
    keepPending(KEPT, pending);
    if (pending !== null) await settle(status);
  } catch (error) {
    say(status, error instanceof WalletError ? error.message : "That did not work; nothing was sent. Try again.", "bad");
  } finally {
    button.disabled = false;
  }
}

async function signed(status) {
  const amount = size(byId("paper-size").value);
  if (amount === null || !market.value) return null;
  await connect();
  const wallet = current().toLowerCase();
  const [slug, side, id, issued] = [market.value, byId("paper-side").value, crypto.randomUUID(), issuedAt()];
  say(status, `Confirm in your wallet: ${amount} pUSDC on ${side}…`);
  const signature = await signText(tradeMessage(wallet, slug, side, amount, id, issued));
  return { amount, side, fields: { walletAddress: wallet, slug, side, tradeId: id, issuedAt: issued, signature } };
}

/** Sends the same body until it is known what became of it: its tradeId counts once, so it never trades twice. */
async function settle(status) {
  const { amount, side, fields } = pending;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    if (attempt === 0) say(status, "Sending…");
    let said;
    try {
      said = await post("/trade", fields, "sizePaper", amount);
    } catch {
      say(status, "No connection. The same trade is sent again…");
      await pause(2000);
      continue;
    }
    if (said.ok) {
      done();
      say(status, `Done: ${amount} pUSDC on ${side}, ${said.receipt.shares} shares. Balance ${said.receipt.balancePaper.toFixed(2)} pUSDC.`, "good");
      await refresh();
      return;
    }
    if (said.status < 500 && said.status !== 429) {
      done(); // refused for good
      say(status, said.message, "bad");
      return;
    }
    say(status, said.message, "bad");
    if (said.error === "cup_agent_trades_halted") return; // waits for an enrolment; the same trade is good afterwards
    await pause(1000 * (said.retryAfter ?? 2));
  }
  say(status, "No answer yet. Send it again: the same trade counts once.", "bad");
}

function done() {
  pending = null;
  dropPending(KEPT);
}

function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

market.addEventListener("input", sides); // before the form hears of it, so that the quote asks for a side it has
byId("paper-form").addEventListener("input", quote);
byId("paper-form").addEventListener("submit", (event) => {
  event.preventDefault();
  trade();
});
sides();
quote();
if (pending) trade();

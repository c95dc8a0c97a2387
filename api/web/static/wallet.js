// Wallets: EIP-6963 discovery with window.ethereum as the fallback, connecting, chains, signing. A wallet gets no request
// before the user presses a button, except for the accounts it has already shared (eth_accounts).
import { demoKey, paperKey, paperKeyMade, paperKeyText } from "./keys.js";
import { setQuery } from "./live.js";

/** @typedef {{info: {uuid: string, name: string, icon?: string, rdns: string}, provider: any}} Found */

const STORAGE_KEY = "vpm.wallet";
/** @type {Found[]} */
const found = [];
const { chains, demo } = JSON.parse(document.body.dataset.wallets);
const onPaper = "paper" in document.body.dataset;
let provider = null;
let account = null;
let adopting = null; // the promise of the account of a wallet that was chosen

export const stockChain = chains.stock;
export const baseChain = chains.base;

/** An error whose message is written for the visitor. */
export class WalletError extends Error {}

export function current() {
  return account;
}

export function start() {
  window.addEventListener("eip6963:announceProvider", (event) => {
    const { info, provider: wallet } = event.detail ?? {};
    if (!info || !wallet || found.some((each) => each.info.uuid === info.uuid)) return;
    found.push({ info, provider: wallet });
    if (info.rdns === storedWallet()) resume(wallet);
  });
  window.dispatchEvent(new Event("eip6963:requestProvider"));
  setTimeout(() => {
    if (!found.length && window.ethereum) {
      found.push({ info: { uuid: "injected", name: "Browser wallet", rdns: "injected" }, provider: window.ethereum });
      if (storedWallet() === "injected") resume(window.ethereum);
    }
  }, 100);
  if (storedWallet() === "vpm.demo" && demo) resume(demoKey(demo).provider);
  if (storedWallet() === "vpm.paper" && onPaper && paperKey()) resume(paperKey().provider);
  pressed("wallet-button", () => (account ? disconnect() : connect()));
  pressed("demo-wallet", () => adopt(demoKey(demo)));
  pressed("paper-wallet", async () => {
    await adopt(paperKeyMade());
    offerCopy();
  });
  pressed("paper-copy", async () => {
    await navigator.clipboard.writeText(paperKeyText());
    document.getElementById("paper-said").textContent = "Copied. Anyone who has this key can play as you.";
  });
  offerCopy();
}

function pressed(id, act) {
  document.getElementById(id)?.addEventListener("click", async () => {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof WalletError)) throw error;
    }
  });
}

/** Returns the connected account; lets the visitor choose when there are several wallets. */
export async function connect() {
  if (account) return account;
  if (adopting) return adopting;
  const chosen = found.length === 1 ? found[0] : await choose();
  if (!chosen) throw new WalletError("No wallet was chosen.");
  return adopt(chosen);
}

/** Connects a wallet; concurrent callers share the wait. `choice`: a wallet, or the promise of one. */
function adopt(choice) {
  const mine = connectTo(choice).finally(() => {
    if (adopting === mine) adopting = null;
  });
  adopting = mine;
  return mine;
}

async function connectTo(choice) {
  const chosen = await choice;
  const accounts = await request(chosen.provider, "eth_requestAccounts");
  if (!accounts?.length) throw new WalletError("The wallet shared no account. Unlock it and try again.");
  use(chosen.provider, accounts[0]);
  storeWallet(chosen.info.rdns);
  return account;
}

/** Switches the wallet to one of our chains, adding the chain to the wallet if it does not know it. */
export async function onChain(chain) {
  const hex = `0x${chain.id.toString(16)}`;
  if (Number(await request(provider, "eth_chainId")) === chain.id) return;
  try {
    await request(provider, "wallet_switchEthereumChain", [{ chainId: hex }]);
  } catch (error) {
    if (error.code !== 4902 && error.inner?.code !== -32603) throw error;
    if (!chain.rpc.length) throw new WalletError(`Add chain ${chain.id} (${chain.name}) to your wallet, then try again.`);
    const parameters = { chainId: hex, chainName: chain.name, rpcUrls: chain.rpc, nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 } };
    if (chain.explorer) parameters.blockExplorerUrls = [chain.explorer];
    await request(provider, "wallet_addEthereumChain", [parameters]);
  }
  if (Number(await request(provider, "eth_chainId")) !== chain.id) throw new WalletError(`Your wallet is still on another chain. Switch it to ${chain.name} (${chain.id}).`);
}

export function signTyped(typed) {
  const text = JSON.stringify(typed, (_, value) => (typeof value === "bigint" ? value.toString() : value));
  return request(provider, "eth_signTypedData_v4", [account, text]);
}

export function signText(text) {
  const hex = `0x${[...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  return request(provider, "personal_sign", [hex, account]);
}

export function send(to, data) {
  return request(provider, "eth_sendTransaction", [{ from: account, to, data }]);
}

/** Waits for a transaction's receipt. Returns null when the transaction is in no block in time. */
export async function mined(hash, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const receipt = await request(provider, "eth_getTransactionReceipt", [hash]);
    if (receipt) return receipt;
    await new Promise((done) => setTimeout(done, 700));
  }
  return null;
}

/** Returns the account's balance of the stock token, in units, or null when the wallet cannot read the balance. */
export async function balance() {
  try {
    const data = `0x70a08231${account.slice(2).toLowerCase().padStart(64, "0")}`;
    return BigInt(await request(provider, "eth_call", [{ to: stockChain.token, data }, "latest"]));
  } catch {
    return null;
  }
}

async function request(wallet, method, params = []) {
  try {
    return await wallet.request({ method, params });
  } catch (error) {
    const failure = new WalletError(
      error?.code === 4001 ? "You declined in the wallet. Nothing was signed and nothing was sent." : `The wallet reported an error: ${error?.message ?? error}`,
    );
    failure.code = error?.code;
    failure.inner = error?.data?.originalError ?? error;
    throw failure;
  }
}

async function resume(wallet) {
  try {
    const accounts = await wallet.request({ method: "eth_accounts" });
    if (accounts?.length && !account) use(wallet, accounts[0]);
  } catch {
    // The wallet is asked again when the user connects.
  }
}

function use(wallet, chosen) {
  if (provider !== wallet) {
    wallet.on?.("accountsChanged", (accounts) => (accounts.length ? set(accounts[0]) : disconnect()));
    wallet.on?.("disconnect", disconnect);
  }
  provider = wallet;
  set(chosen);
}

function set(chosen) {
  account = chosen;
  const button = document.getElementById("wallet-button");
  button.textContent = `${chosen.slice(0, 6)}…${chosen.slice(-4)}`;
  button.title = `${chosen}: press to disconnect`;
  button.setAttribute("aria-label", `Wallet ${chosen}, press to disconnect`);
  offerDemo(false);
  announceAccount();
}

function disconnect() {
  account = null;
  provider = null;
  storeWallet("");
  const button = document.getElementById("wallet-button");
  button.textContent = "Connect wallet";
  button.title = "";
  button.removeAttribute("aria-label");
  offerDemo(true);
  announceAccount();
}

function offerCopy() {
  const button = document.getElementById("paper-copy");
  if (button) button.hidden = !paperKey();
}

function offerDemo(shown) {
  const button = document.getElementById("demo-wallet");
  if (button) button.hidden = !shown;
}

function announceAccount() {
  document.dispatchEvent(new CustomEvent("wallet:changed", { detail: account }));
  if ("mine" in document.body.dataset) setQuery("owner", account);
  if ("ownerPage" in document.body.dataset && account && !new URLSearchParams(location.search).get("owner")) {
    location.assign(`/positions?owner=${account}`);
  }
}

function choose() {
  const dialog = document.getElementById("wallet-dialog");
  const choices = document.getElementById("wallet-choices");
  document.getElementById("wallet-none").hidden = found.length > 0;
  const own = [...(demo ? [demoKey(demo)] : []), ...(onPaper ? [paperKey() ?? { info: { name: "A new key in this browser, for paper money" }, made: paperKeyMade }] : [])];
  return new Promise((done) => {
    let picked = null;
    choices.replaceChildren(
      ...[...found, ...own].map((each) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "quiet";
        if (each.info.icon?.startsWith("data:image/")) {
          const icon = document.createElement("img");
          icon.src = each.info.icon;
          icon.alt = "";
          button.append(icon);
        }
        button.append(each.info.name);
        button.addEventListener("click", () => {
          picked = each;
          dialog.close();
        });
        return button;
      }),
    );
    dialog.addEventListener("close", () => done(picked?.made ? picked.made() : picked), { once: true });
    dialog.showModal();
  });
}

function storedWallet() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

function storeWallet(rdns) {
  try {
    if (rdns) localStorage.setItem(STORAGE_KEY, rdns);
    else localStorage.removeItem(STORAGE_KEY);
  } catch {
    // Private windows may refuse to store; then the visitor connects again next time.
  }
}

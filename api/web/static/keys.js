// Wallets that are keys of the page itself, spoken to as any other (EIP-1193): the demo wallet of a local stack, and a key
// kept in this browser for paper money. They sign and do nothing else.

const PAPER = "vpm.paper-key";

/** The demo wallet's or this browser's key, as a wallet announces itself. */
export class PageKey {
  #key;

  constructor(name, rdns, address, key) {
    this.info = { uuid: rdns, name, rdns };
    this.address = address;
    this.#key = key;
    this.chainId = "0x0";
    this.provider = { request: ({ method, params }) => this.#answer(method, params ?? []) };
  }

  async #answer(method, params) {
    if (method === "eth_accounts" || method === "eth_requestAccounts") return [this.address];
    if (method === "eth_chainId") return this.chainId;
    if (method === "wallet_switchEthereumChain") {
      this.chainId = params[0].chainId;
      return null;
    }
    const { privateKeyToAccount } = await import("./betting.js");
    const account = privateKeyToAccount(this.#key);
    if (method === "personal_sign") return account.signMessage({ message: { raw: params[0] } });
    if (method === "eth_signTypedData_v4") {
      const { domain, types, primaryType, message } = JSON.parse(params[1]);
      const { EIP712Domain: _, ...own } = types;
      return account.signTypedData({ domain, types: own, primaryType, message });
    }
    throw Object.assign(new Error(`this key signs, and cannot do ${method}`), { code: 4200 });
  }
}

/** Of a local stack, whose key everybody is given. */
export function demoKey(demo) {
  return new PageKey("Demo wallet of this local stack", "vpm.demo", demo.address, demo.key);
}

/** This browser's key, if it has one. */
export function paperKey() {
  try {
    const kept = JSON.parse(localStorage.getItem(PAPER) ?? "null");
    return kept && new PageKey("Key of this browser, for paper money", "vpm.paper", kept.address, kept.key);
  } catch {
    return null;
  }
}

/** The same, made when there is none. It is kept before it is used, so that no paper money is lost with it. */
export async function paperKeyMade() {
  if (!paperKey()) {
    const { generatePrivateKey, privateKeyToAccount } = await import("./betting.js");
    const key = generatePrivateKey();
    localStorage.setItem(PAPER, JSON.stringify({ key, address: privateKeyToAccount(key).address }));
  }
  return paperKey();
}

/** The key itself, for taking it elsewhere; null when there is none. */
export function paperKeyText() {
  return JSON.parse(localStorage.getItem(PAPER) ?? "null")?.key ?? null;
}

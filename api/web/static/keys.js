// Wallets that are private keys held by the page, with the interface of any other wallet (EIP-1193): the demo wallet of a
// local stack, and a key stored in this browser for paper money. They only sign.

const PAPER = "vpm.paper-key";

/** A private key of the page, in the form in which wallets announce themselves (EIP-6963). */
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
    throw Object.assign(new Error(`this key only signs messages; it cannot do ${method}`), { code: 4200 });
  }
}

/** Returns the demo wallet of a local stack, whose key every visitor gets. */
export function demoKey(demo) {
  return new PageKey("Demo wallet of this local stack", "vpm.demo", demo.address, demo.key);
}

/** Returns this browser's key, or null. */
export function paperKey() {
  try {
    const stored = JSON.parse(localStorage.getItem(PAPER) ?? "null");
    return stored && new PageKey("Key of this browser, for paper money", "vpm.paper", stored.address, stored.key);
  } catch {
    return null;
  }
}

/** Returns this browser's key, making one if needed. It is stored before it is used, so that no paper money is lost. */
export async function paperKeyMade() {
  if (!paperKey()) {
    const { generatePrivateKey, privateKeyToAccount } = await import("./betting.js");
    const key = generatePrivateKey();
    localStorage.setItem(PAPER, JSON.stringify({ key, address: privateKeyToAccount(key).address }));
  }
  return paperKey();
}

/** Returns the private key, to copy it elsewhere; null when there is none. */
export function paperKeyText() {
  return JSON.parse(localStorage.getItem(PAPER) ?? "null")?.key ?? null;
}

// Wallets: a viem account, a key service, or any object that signs typed data or a digest.

import { type Address, type Hex, getAddress, hashMessage, hashTypedData, numberToHex, recoverAddress } from "viem";

import type { TypedData } from "./typedData.js";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** A key that signs a 32-byte digest and returns r, s, v. See `derSigner` for key services. */
export interface DigestSigner {
  address: Address;
  signDigest(digest: Hex): Promise<Hex>;
}

/** An account like viem's. */
export interface TypedDataSigner {
  address: Address;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  signTypedData(typed: any): Promise<Hex>;
  signMessage(given: { message: string }): Promise<Hex>;
}

export type Signer = DigestSigner | TypedDataSigner;

/** A contract wallet (ERC-1271) with a signer whose signature it accepts. */
export interface ContractWallet {
  address: Address;
  signer: Signer;
}

export type Wallet = Signer | ContractWallet;

/** A key in a key service, which returns a DER signature without the recovery bit. */
export function derSigner(address: Address, sign: (digest: Uint8Array) => Promise<Uint8Array>): DigestSigner {
  return {
    address,
    async signDigest(digest) {
      const der = await sign(Uint8Array.from(digest.slice(2).match(/../g) ?? [], (pair) => parseInt(pair, 16)));
      const [r, rest] = integer(der.subarray(2));
      const [given] = integer(rest);
      const s = given > ORDER / 2n ? ORDER - given : given; // the token accepts only the lower s
      for (const v of ["1b", "1c"]) {
        const signature: Hex = `${numberToHex(r, { size: 32 })}${numberToHex(s, { size: 32 }).slice(2)}${v}`;
        if ((await signerOf(digest, signature)) === getAddress(address)) return signature;
      }
      throw new Error(`The signature is not by ${address}.`);
    },
  };
}

export const addressOf = (wallet: Wallet): Address => getAddress(wallet.address);

/** Signs typed data; throws if the signature is not the wallet's. */
export async function signTypedData(wallet: Wallet, typed: TypedData): Promise<Hex> {
  const signer = "signer" in wallet ? wallet.signer : wallet;
  const digest = hashTypedData(typed);
  return checked(wallet, digest, "signDigest" in signer ? await signer.signDigest(digest) : await signer.signTypedData(typed));
}

/** Signs a text with `personal_sign` (EIP-191). */
export async function signText(wallet: Wallet, text: string): Promise<Hex> {
  const signer = "signer" in wallet ? wallet.signer : wallet;
  const digest = hashMessage(text);
  return checked(wallet, digest, "signDigest" in signer ? await signer.signDigest(digest) : await signer.signMessage({ message: text }));
}

/** Returns the signer's address, or undefined if `signature` is not a signature. */
export async function signerOf(digest: Hex, signature: Hex): Promise<Address | undefined> {
  try {
    return await recoverAddress({ hash: digest, signature });
  } catch {
    return undefined;
  }
}

async function checked(wallet: Wallet, digest: Hex, given: Hex): Promise<Hex> {
  let signature = given;
  const last = given.slice(-2);
  // Some signers count v from 0; the token does not.
  if (given.length === 132 && (last === "00" || last === "01")) signature = `${given.slice(0, -2)}${last === "00" ? "1b" : "1c"}` as Hex;
  if (!("signer" in wallet) && (await signerOf(digest, signature)) !== addressOf(wallet)) {
    throw new Error(`The signature is not by ${addressOf(wallet)}.`);
  }
  return signature;
}

function integer(der: Uint8Array): [bigint, Uint8Array] {
  const length = der[1];
  if (der[0] !== 2 || length === undefined) throw new Error("The signature is not DER-encoded.");
  const bytes = der.subarray(2, 2 + length);
  return [BigInt(`0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`), der.subarray(2 + length)];
}

// The bet hash that a payment is bound to and the typed data to sign, computed here rather than taken from the API.
//
// With EIP-3009's `ReceiveWithAuthorization` only the settlement contract can collect the payment, and the nonce is the hash
// of one bet. The token accepts each nonce of a wallet once, so a bet is paid for at most once, however often it is signed or
// sent.

import { type Address, type Hex, hashTypedData, keccak256, pad, stringToHex, toHex } from "viem";

export const CHAIN_ID = 8453;
export const RECEIVE = "ReceiveWithAuthorization";
const MARK = keccak256(stringToHex("service-settlement-bound-payment")).slice(2, 18);
const ZERO_ADDRESS: Address = `0x${"00".repeat(20)}`;

/** An EIP-712 message in viem's format. */
export interface TypedData {
  domain: { name: string; version: string; chainId: number; verifyingContract?: Address };
  types: Record<string, readonly { name: string; type: string }[]>;
  primaryType: string;
  message: Record<string, unknown>;
}

const fields = (kinds: Record<string, string>): { name: string; type: string }[] =>
  Object.entries(kinds).map(([name, type]) => ({ name, type }));

/** Converts to millionths, the unit of the token and the contract. */
export function units(amount: number): bigint {
  const [whole, part = ""] = plain(amount).split(".");
  if (part.length > 6) throw new RangeError(`${amount} has more than 6 decimals.`);
  return BigInt(`${whole}${part.padEnd(6, "0")}`);
}

function plain(amount: number): string {
  const text = String(amount);
  if (/^[0-9]+(\.[0-9]+)?$/.test(text)) return text;
  if (/^[0-9.]+e-[0-9]+$/.test(text)) return amount.toFixed(20).replace(/0+$/, "");
  throw new RangeError(`${text} is not an amount.`);
}

export const marketKey = (marketId: string): Hex => keccak256(stringToHex(marketId));

export interface BetFields {
  contract: Address;
  marketKey: Hex;
  outcome: number;
  amount: bigint;
  minShares: bigint;
  wallet: Address;
  idemKey: string;
  builder: Address | undefined;
  ref: string | undefined;
}

/** Returns the trade id: the hash of the bet as the settlement contract computes it. Amounts are in millionths. */
export function betHash(bet: BetFields): Hex {
  return hashTypedData({
    domain: { name: "Service Settlement", version: "2", chainId: CHAIN_ID, verifyingContract: bet.contract },
    types: {
      Bet: fields({
        marketId: "bytes32",
        outcome: "uint8",
        amount: "uint256",
        minShares: "uint256",
        wallet: "address",
        idemHash: "bytes32",
        builder: "address",
        ref: "bytes32",
      }),
    },
    primaryType: "Bet",
    message: {
      marketId: bet.marketKey,
      outcome: bet.outcome,
      amount: bet.amount,
      minShares: bet.minShares,
      wallet: bet.wallet,
      idemHash: keccak256(stringToHex(bet.idemKey)),
      builder: bet.builder ?? ZERO_ADDRESS,
      ref: bet.ref === undefined ? toHex(0, { size: 32 }) : pad(stringToHex(bet.ref), { dir: "right", size: 32 }),
    },
  });
}

export const boundNonce = (hash: Hex): Hex => `0x${MARK}${hash.slice(18)}`;

/** Builds the typed data that a payer signs. */
export function authorization(given: {
  token: Address;
  name: string;
  version: string;
  payer: Address;
  to: Address;
  value: bigint;
  until: number;
  nonce: Hex;
}): TypedData {
  return {
    domain: { name: given.name, version: given.version, chainId: CHAIN_ID, verifyingContract: given.token },
    types: {
      [RECEIVE]: fields({
        from: "address",
        to: "address",
        value: "uint256",
        validAfter: "uint256",
        validBefore: "uint256",
        nonce: "bytes32",
      }),
    },
    primaryType: RECEIVE,
    message: {
      from: given.payer,
      to: given.to,
      value: given.value,
      validAfter: 0n,
      validBefore: BigInt(given.until),
      nonce: given.nonce,
    },
  };
}

/** Builds the receipt that the service signs for a settled trade (x402 offer-and-receipt extension). */
export function signedReceipt(payload: Record<string, unknown>): TypedData {
  return {
    domain: { name: "x402 receipt", version: "1", chainId: 1 }, // the chain's id is 1 for payments on any chain
    types: {
      Receipt: fields({
        version: "uint256",
        network: "string",
        resourceUrl: "string",
        payer: "string",
        issuedAt: "uint256",
        transaction: "string",
      }),
    },
    primaryType: "Receipt",
    message: payload,
  };
}

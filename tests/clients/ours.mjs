// Our TypeScript library as a program uses it. Reads an order as one line of JSON, and answers in lines of JSON.

import { createInterface } from "node:readline";
import { privateKeyToAccount, sign, serializeSignature } from "viem/accounts";
import * as library from "vpm-client";

const { Client, Cursor, OutcomeUnknown, Unreachable, VpmError, WebhookVerifier, derSigner } = library;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const order = JSON.parse((await lines.next()).value);
const print = (value) => console.log(JSON.stringify(value));

const part = () => Math.floor(Math.random() * 254) + 1;
/** Sends each call from a new address, to stay below rate limits. */
const stranger = (url, init) =>
  fetch(url, { ...init, headers: { ...init.headers, "X-Forwarded-For": `10.${part()}.${part()}.${part()}` } });

const wallets = {
  viem: (key) => privateKeyToAccount(key),
  digest: (key) => ({
    address: privateKeyToAccount(key).address,
    signDigest: async (hash) => serializeSignature(await sign({ hash, privateKey: key })),
  }),
  der: (key) => derSigner(privateKeyToAccount(key).address, async (digest) => derOf(key, digest)),
};

/** In DER, as key services answer. */
async function derOf(key, digest) {
  const { r, s } = await sign({ hash: `0x${Buffer.from(digest).toString("hex")}`, privateKey: key });
  const integer = (hex) => {
    let bytes = Buffer.from(hex.slice(2), "hex");
    while (bytes.length > 1 && bytes[0] === 0 && bytes[1] < 0x80) bytes = bytes.subarray(1);
    if (bytes[0] >= 0x80) bytes = Buffer.concat([Buffer.from([0]), bytes]);
    return Buffer.concat([Buffer.from([2, bytes.length]), bytes]);
  };
  // The higher of the two valid s, which key services give every other time.
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  const high = `0x${(order - BigInt(s)).toString(16).padStart(64, "0")}`;
  const both = Buffer.concat([integer(r), integer(high)]);
  return Buffer.concat([Buffer.from([0x30, both.length]), both]);
}

const client = (options = {}) =>
  new Client({
    baseUrl: order.baseUrl,
    wallet: wallets[order.signer ?? "viem"](options.privateKey ?? order.privateKey),
    fetch: stranger,
    ...order.options,
  });

const failure = (error) => {
  if (!(error instanceof VpmError)) throw error;
  const { name, message, code, field, hint, payment, mayHavePaid, ticket } = error;
  return { name, message, code, field, hint, payment, mayHavePaid, ticket };
};

const acts = {
  async bet() {
    const kept = [];
    const keep = (ticket) => kept.push(ticket);
    const ours = client();
    const made = order.ticket
      ? ours.place(order.ticket, { final: order.final ?? false, keep })
      : ours.bet(order.request, { final: order.final ?? false, keep });
    print(await made.then((placed) => ({ placed, kept }), (error) => ({ error: failure(error), kept })));
  },
  async events() {
    const cursor = new Cursor(order.from ?? 0);
    const found = [];
    if (order.count === 0) return print({ found, next: cursor.nextSeq });
    for await (const event of client().events({ cursor })) {
      found.push(event);
      if (found.length === order.count) break;
    }
    print({ found, next: cursor.nextSeq });
  },
  /** Each delivery twice by the same verifier: what it says of the first and of the second. */
  async webhooks() {
    const said = [];
    for (const { given, headers, body, now } of order.deliveries) {
      const verifier = new WebhookVerifier(given, { clock: () => now });
      for (let time = 0; time < 2; time++) {
        said.push(await verifier.verify(headers, Buffer.from(body, "hex")).then((event) => event.eventId, failure));
      }
    }
    print(said);
  },
  async reads() {
    const ours = client();
    const { markets } = await ours.markets({ status: "open" });
    const { positions } = await ours.positions();
    print({ version: library.VERSION, markets: markets.length, positions: positions.length });
  },
  async register() {
    print(await client().registerWebhook(order.url));
  },
  /** Wallets bet one bet after another until a line says stop; each outcome is a line. */
  async crowd() {
    let going = true;
    lines.next().then(() => (going = false));
    await Promise.all(
      order.wallets.map(async (privateKey, at) => {
        const ours = client({ privateKey });
        for (let number = 0; going; number++) {
          const sizeUsd = order.sizes[number % order.sizes.length];
          const side = order.sides[(at + number) % 2];
          const request = { market: order.market, side, sizeUsd, minShares: order.minShares };
          print({ wallet: at, intended: request.sizeUsd });
          let ticket;
          let placed;
          while (placed === undefined) {
            try {
              ticket ??= await ours.prepare(request);
              placed = await ours.place(ticket, { final: false });
            } catch (error) {
              if (error instanceof OutcomeUnknown || error instanceof Unreachable) print({ wallet: at, unknown: true });
              else placed = { error: failure(error) };
              ticket = error.ticket ?? ticket;
            }
          }
          print({ wallet: at, ...placed });
        }
      }),
    );
    print({ done: true });
    process.exit(0);
  },
};

await acts[order.act]();
process.exit(0);

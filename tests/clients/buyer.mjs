// The official TypeScript x402 client as anybody uses it: it posts a body, answers the 402 and shows what came back.
// It knows nothing of this service. Reads {url, body, privateKey} from standard input, writes {status, body, settled}.

import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

let given = "";
for await (const chunk of process.stdin) given += chunk;
const { url, body, privateKey } = JSON.parse(given);

const client = registerExactEvmScheme(new x402Client(), { signer: privateKeyToAccount(privateKey) });
const payingFetch = wrapFetchWithPayment(fetch, client);
const response = await payingFetch(url, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});
const settlement = response.headers.get("X-PAYMENT-RESPONSE");
const settled = settlement === null ? null : decodePaymentResponseHeader(settlement);
console.log(JSON.stringify({ status: response.status, body: await response.json(), settled }));

// The official TypeScript x402 clients as anybody uses them: they post a body, answer the 402 and show what came back.
// They know nothing of this service. Reads {client, url, body, privateKey, cap} from standard input: which of them, and
// the limit that its owner sets for one payment, if any. Writes {status, body, settled}, or
// {stopped} when the client itself would not pay.

import axios from "axios";
import { wrapAxiosWithPayment, x402Client as AxiosClient } from "@x402/axios";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

let given = "";
for await (const chunk of process.stdin) given += chunk;
const { client, url, body, privateKey, cap } = JSON.parse(given);
const signer = privateKeyToAccount(privateKey);

const buyers = {
  async fetch() {
    const payer = registerExactEvmScheme(new x402Client(), { signer });
    if (cap) payer.setSpendControls({ maxAmountPerPayment: cap });
    const response = await wrapFetchWithPayment(fetch, payer)(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: await response.json(), header: response.headers.get("PAYMENT-RESPONSE") };
  },
  async axios() {
    const payer = registerExactEvmScheme(new AxiosClient(), { signer });
    const api = wrapAxiosWithPayment(axios.create({ validateStatus: (status) => status !== 402 }), payer);
    const response = await api.post(url, body);
    return { status: response.status, body: response.data, header: response.headers["payment-response"] };
  },
};

try {
  const { header, ...answer } = await buyers[client]();
  console.log(JSON.stringify({ ...answer, settled: header ? decodePaymentResponseHeader(header) : null }));
} catch (error) {
  console.log(JSON.stringify({ stopped: error.message }));
}

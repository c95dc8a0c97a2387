// The official TypeScript x402 clients, used as usual: they post a body, answer the 402 and print the result. They know
// nothing about this service. Reads {client, url, body, privateKey, cap} from standard input: which of them, and
// the limit that its owner sets for one payment, if any. Writes {status, body, settled}, or
// {stopped} when the client itself would not pay.

import axios from "axios";
import { wrapAxiosWithPayment, x402Client as AxiosClient } from "@x402/axios";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import { answer, posted } from "./buying.mjs";

const buyers = {
  async fetch({ url, body, privateKey, cap }) {
    const payer = registerExactEvmScheme(new x402Client(), { signer: privateKeyToAccount(privateKey) });
    if (cap) payer.setSpendControls({ maxAmountPerPayment: cap });
    const response = await wrapFetchWithPayment(fetch, payer)(url, posted(body));
    return { status: response.status, body: await response.json(), header: response.headers.get("PAYMENT-RESPONSE") };
  },
  async axios({ url, body, privateKey }) {
    const payer = registerExactEvmScheme(new AxiosClient(), { signer: privateKeyToAccount(privateKey) });
    const api = wrapAxiosWithPayment(axios.create({ validateStatus: (status) => status !== 402 }), payer);
    const response = await api.post(url, body);
    return { status: response.status, body: response.data, header: response.headers["payment-response"] };
  },
};

await answer(buyers, decodePaymentResponseHeader);

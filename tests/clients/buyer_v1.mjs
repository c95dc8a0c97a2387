// The official TypeScript x402 clients of version 1, used as usual. They know nothing about this service. Reads
// {client, url, body, privateKey, cap} from standard input: `cap` is the third argument of x402-fetch, in units, if any.
// Writes {status, body, settled}, or {stopped} when the client itself would not pay.

import axios from "axios";
import { withPaymentInterceptor } from "x402-axios";
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { answer, posted } from "./buying.mjs";

const buyers = {
  async fetch({ url, body, privateKey, cap }) {
    const wallet = await createSigner("base", privateKey);
    const pay = wrapFetchWithPayment(fetch, wallet, ...(cap ? [BigInt(cap)] : []));
    const response = await pay(url, posted(body));
    return { status: response.status, body: await response.json(), header: response.headers.get("X-PAYMENT-RESPONSE") };
  },
  async axios({ url, body, privateKey }) {
    const wallet = await createSigner("base", privateKey);
    const response = await withPaymentInterceptor(axios.create(), wallet).post(url, body);
    return { status: response.status, body: response.data, header: response.headers["x-payment-response"] };
  },
};

await answer(buyers, decodeXPaymentResponse);

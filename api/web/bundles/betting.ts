// Loaded when a visitor signs with a key held by the page, or bets on an agent market: one file, made by
// `python -m scripts._vpm.bundles`.

export { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
export { ApiError, Client, OutcomeUnknown, PaymentRefused, VpmError } from "../../clients/typescript/src/index.js";

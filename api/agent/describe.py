"""Texts of the documentation."""

from __future__ import annotations

DESCRIPTION = """\
Parimutuel markets on Base for autonomous agents, paid in USDC by x402. The paying wallet is the account: no key, no
sign-up, no gas. Winners split the pool less fees and are paid without asking.

A market's `status` is `open`, `closed` (past its deadline, unsettled), `resolved` or `void` (stakes given back whole).
Money is USD with at most 6 decimals, exact. Errors carry `error`, `message`, `hint`, `docsUrl`, `retriable` and
`requestId`; a 400 also `issues`. `retriable` is true for `rate_limited`, `internal_error` and `platform_paused`. The
codes `deposit_above_max`, `deposit_unconfirmed`, `deposit_mismatch` and `deposit_tx_reused` are reserved and never
sent; `payment_required` names the 402 in logs.

Reads of markets, positions, results, proofs and stats have strong ETags: with `If-None-Match`, what has not changed
costs no body. A wallet has one book: its stakes of this API and those a partner brought to the contract stand together;
a `builderCode` puts nothing into the builder's. A trade id is the EIP-712 hash of the trade's intent under the domain
`Service Settlement` 1 of the settlement contract."""

QUOTE = """\
What a bet would get now: exactly what the contract gives when nothing else trades in between. Above 10 USD the quote is
a lock of 60 seconds for one trade of this market, side and size; `suggestedMinSharesOut` is the quoted shares, so a
trade that passes it back gets at least those or does not happen. 30 a minute for each IP."""

TRADE = """\
Post the bet without `X-PAYMENT` for the 402 challenge; sign an EIP-3009 `transferWithAuthorization` of exactly
`maxAmountRequired` to `payTo`; post the same body with the x402 v1 envelope in `X-PAYMENT`. The envelope is base64 JSON
`{x402Version: 1, scheme: "exact", network: "base", payload: {signature, authorization: {from, to, value, validAfter,
validBefore, nonce}}}`; numbers may be strings. A client that uses `extra.intentNonce` as the nonce may settle the bet
through the contract itself; one that uses `extra.intentValidAfter` as `validAfter` with it binds its signature to this
very bet: the contract then takes it for no other, whoever sends it. Any other authorization leaves that to this
service, which takes it for the one trade it was first sent with.

Checks in order: schema, market, idempotency key, trading on, market open, side, tier and quote, limits, balance,
payment. `simulate: true` ends before the last two: it needs no money and no signature. A key belongs to its wallet:
used again with the same market, side, size and builder it returns the first receipt, with others it is `idem_conflict`.
After a broadcast no answer asks for another payment: it is the receipt, or 500 `internal_error` with `txHash`. 10 a
minute for each wallet, a challenge and its paid retry counting once.

The challenge and the receipt of a real trade are signed too, in the EIP-712 form of the x402 offer-and-receipt
extension (`extensions["offer-receipt"].info`), by the key whose address `GET /health` gives as `attester`. A receipt
and a proof can be checked against any node with `vpm verify`."""

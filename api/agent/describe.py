"""Texts of the documentation."""

from __future__ import annotations

DESCRIPTION = """\
Parimutuel markets on Base for autonomous agents, paid in USDC by x402. The paying wallet is the account: no key, no
sign-up, no gas. Winners split the pool less fees and are paid without asking.

A market's `status` is `open`, `closed` (takes no bets: they have ended, or have not begun; unsettled), `resolved` or
`void` (stakes given back whole). `deadlineAt` is the second in which bets end, before anything that decides is
measured: the contract takes none in it. `startAt` (up or down only) and `endsAt` are the moments that decide,
`settlesAfter` is when the result counts. Money is USD with at most 6 decimals, exact; what a feed says of a token may
have 8. Errors carry `error`, `message`, `hint`, `docsUrl`, `retriable` and `requestId`; a 400 also `issues`.
`retriable` is true for `rate_limited`, `internal_error` and `platform_paused`, and for whatever has `final: false`. The
codes `deposit_above_max`, `deposit_unconfirmed`, `deposit_mismatch` and `deposit_tx_reused` are reserved and never
sent; `payment_required` names the 402 in logs. Query names that an operation does not know are named back in
`meta.ignoredQuery`, each with the nearest one it knows.

Reads of markets, positions, results, proofs and stats have strong ETags: with `If-None-Match`, what has not changed
costs no body. A wallet has one book: its stakes of this API and those a partner brought to the contract stand
together; a `builderCode` puts nothing into the builder's. A trade id is the EIP-712 hash of the trade's `Bet` under
the domain `Service Settlement` 2 of the settlement contract.

Winners split the pool after fees. While it holds a dollar for every winning share, shares are paid alike; else each
winner first gets its stake less the fee back, and the losers' money is split by what the shares promised beyond it, so
a right bet never gets less than its stake less its fee. Then `payoutPerShareUsd` is null; a position has the exact
`payoutUsd`. If nobody backed what won, or nobody backed anything else, every stake goes back whole, fee included.
`projectedPayoutUsd` is what a bet would be paid if its side won with the book as it then stands; `warnings` say what
is allowed but unwise: `pays_less_than_stake`, `first_on_its_side`, `wallet_underfunded`, `closes_soon`."""

QUOTE = """\
What a bet would get now: exactly what the contract gives when nothing else trades in between. Above 10 USD the quote
is a lock of 60 seconds for one trade of this market, side and size. `suggestedMinSharesOut` is a hundredth under the
quoted shares and `suggestedMaxPriceCents` a hundredth over the price: a trade that passes one of them back gets at
least that or does not happen, and a small bet in between does not refuse it. No quote outlives the end of bets; a
market that takes none answers 409 `market_closed` from the second of its `deadlineAt` on. With `wallet` the warnings
look at its balance, too. 30 a minute for each IP."""

TRADE = """\
Post the bet without a payment for the 402 challenge; sign an EIP-3009 `transferWithAuthorization` of exactly the amount
to `payTo`; post the same body with the payment. Both versions of x402 are spoken at once. Version 1: the challenge is
the body, the payment the header `X-PAYMENT`, base64 JSON `{x402Version: 1, scheme: "exact", network: "base", payload:
{signature, authorization: {from, to, value, validAfter, validBefore, nonce}}}`. Version 2: the challenge is the header
`PAYMENT-REQUIRED`, the payment the header `PAYMENT-SIGNATURE`, with `accepted` (the offer that is paid; its scheme,
network `eip155:8453`, asset, amount and payTo are compared) instead of scheme and network. Numbers of an authorization
may be strings. `validBefore` is at most `maxTimeoutSeconds` ahead. Two payments in one request that differ are a 400.

A payment may take one of two forms, told apart by the nonce alone. TRANSFER: `TransferWithAuthorization`, as stock
clients sign it, with a random nonce. With a random nonce the relayer decides what a payment is staked on: this service
takes it for the one trade it was first sent with. With `extra.intentNonce` as nonce the bet may be settled through the
contract by anybody; with `extra.intentValidAfter` as `validAfter`, too, it is bound to this very bet. RECEIVE: the
same fields signed as `ReceiveWithAuthorization` (`extra.receivePrimaryType`) with `extra.receiveNonce` as nonce. Only
the contract can take such a payment, and only for this very bet: nobody can send it past us, and it needs nobody's
trust. Whoever holds a bound signature chooses when it is sent until `validBefore`, so set `minSharesOut`. A nonce of
one form with the signature of the other is refused with words.

An authorization in the transfer form may be sent to the token by anybody. What it brings is its payer's: send the same
request again, and it is booked once its block is final, as the stake or, where it no longer can be one or brought
another amount, as a refund; also if you never come back. Less than 1 USDC is never booked: it is a gift. Nobody whose
authorization was used is asked for another: a fresh one is asked for only when the index holds the cancellation of the
one presented.

Checks in order: schema, market, idempotency key, trading on, market open, side, tier and quote, limits, payment,
balance. `simulate: true` ends before the last two: it needs no money and no signature. `pool_impact_exceeded` has
`details`: `limit` (`price`: 40 points by one trade; `pot_cap`: what its side may hold, while the others have room of
their own) and `largestSizeUsd`. A key belongs to its wallet: used again with the same market, side, size and builder
it returns the first receipt, with others it is `idem_conflict`. While a payment may still be taken no answer asks for
another: it is the receipt, 429 with `txHash` for a repeat while the first is still settling, or 500 `internal_error`
with `txHash`; one that ran out unused or was refused by the contract is asked for again. A refusal with `final:
false` was made by a block that is not final: should the chain undo that block, the bet, which is signed, may still be
taken; the same request tells, so it is `retriable`. 10 a minute for each wallet, a challenge and its paid retry
counting once; so 300 a minute for each address. One wallet may call 120 times a minute from one address, whatever
for.

The challenge and the receipt of a real trade are signed too, in the EIP-712 form of the x402 offer-and-receipt
extension (`extensions["offer-receipt"].info`), by the key whose address `GET /health` gives as `attester` and
`/.well-known/did.json` names for this origin. A receipt and a proof can be checked against any node with `vpm
verify`."""

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

DISCOVER = """\
With `q`: markets on a cashtag in it first (`matchKind` `exact`, score 1000 plus the number of open markets with a
smaller pool), then markets that share words with it (`related`, score the Jaccard similarity of the two sets of words).
With `post`: the post passes a silence gate of fixed rules first, then its text is ranked like a `q`. With both, the
gate reads the post and `q` is ranked. With neither: the most active open markets, each with reason `browse`. Equal
scores: the earlier deadline first, then the id. No language model takes part and the text is only ever compared."""

SENTIMENT = """\
The score is 100 x sum(pool x bullish probability) / sum(pool) over the token's open markets that have a direction:
`yes` and `up` are bullish, and of a range market the buckets above the current value. Markets weigh alike while every
pool is 0; without a directional market the score is 50 and the basis `none`. Labels change at 80, 60, 40 and 20.
Confidence is `high` from 20 bettors and 1,000 USD on directional markets, `medium` from 5 and 100, `low` from any bet.
Quality is `broad` from 10 bettors of whom none has 25 % of the stakes, `concentrated` below 3 bettors or when one has
half, otherwise `mixed`. A token without markets is no error: `hasSignal` is false. Data only, no advice."""

STREAM = """\
A server-sent event stream of one wallet's events: each `data:` is one event, the `id` its `seq`. It starts at `fromSeq`
(0 by default), or after `Last-Event-ID`, with what was missed and goes on with what happens. A comment every 15 s shows
that it lives; after 300 s it closes: reconnect with `Last-Event-ID` and nothing is missed. A reader that takes nothing
for 5 s is cut off."""

REPLAY = """\
A wallet's events in order from `fromSeq` on, at most 500 a page; `nextSeq` is null when there are no more: then go on
later from `lastSeq` + 1. `seq` counts from 0 without a gap. An event is never changed: one that a reorganization undid
is followed by a correction, the same type with `undone: true` and `corrects` in its payload."""

RESOLVED = """\
`market.resolved`, `position.won` and `position.lost` of a wallet after an instant, oldest first. `nextSince` is null
when there are no more; then go on later from the `createdAt` of the last one, with all its digits. Shortened to a
second or a millisecond it brings some events again: drop those you have, by `eventId`."""

REGISTER = """\
Pushes every event of a wallet, from now on, to a URL. `message` is signed by the wallet: by its key (EIP-191
`personal_sign`) or its contract (ERC-1271). The `secret` is shown here and never again. The endpoint is
`pending_verification` until it answers the `webhook.verify` event with the `challenge` of its payload (as the plain
body, or as `challenge` of a JSON object), which is tried for an hour. Registering the same URL again gives it a new id
and secret. A `disabled` one then begins with what happens next; any other goes on where it was. The URL must be https
and lead to public addresses; redirects are not followed.

Each delivery has `Service-Event-Id`, `Service-Timestamp` (Unix seconds) and `Service-Signature: v1=<hex>`, the
HMAC-SHA256 under `secret` of `<Service-Event-Id>.<Service-Timestamp>.<raw body>`; refuse one older than 5 minutes. Any
2xx within 8 s takes it. Otherwise it is tried nine more times over 24 hours, and events after it wait; then it is given
up, which the event `webhook.delivery_failed` tells on the other channels; after 3 days of nothing but failures the
webhook is `disabled`. What was missed is in `/events/replay`."""

TEST = """\
Sends a `test` event to this webhook alone, now and once: `note` says why it was not sent or not taken. What waits for
the webhook is tried again at once. One that was switched off begins again with the handshake."""

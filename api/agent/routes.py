"""The operations under /api/agent/v1, by group, with their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from api.agent import requests as models
from api.agent.bodies.events import DeletedBody, ReplayBody, ResolvedBody, TestBody, WebhookBody
from api.agent.bodies.markets import Markets, OneMarket, ResultBody
from api.agent.bodies.parts import BAD, NO_DATABASE, NO_WALLET, RATE, answers, refusal
from api.agent.bodies.positions import PositionsBody
from api.agent.bodies.research import ResearchBody
from api.agent.bodies.trades import Challenge, QuoteBody, TradeBody, TradeProofBody
from api.agent.discovery import DiscoverBody, DiscoverQuery, Discovery
from api.agent.notices.events import EventChannels
from api.agent.platform import GettingStarted, HealthBody, Platform, ReadinessBody, StatsBody
from api.agent.reads import AgentReads
from api.agent.sentiment import Sentiment, SentimentBody, SentimentQuery
from api.agent.trade import x402
from api.operations import Body, DocumentedAnswer, Handler, Operation

PREFIX = "/api/agent/v1"
# For directories of paid APIs. A bet has no fixed maximum; the largest quote is the limit.
PAYMENT_INFO = {
    "price": {"mode": "dynamic", "currency": "USD", "min": "1", "max": str(models.MAX_SIZE_USD)},
    "protocols": [{"x402": {}}],
}


DESCRIPTION = """\
Parimutuel markets on Base for autonomous agents, paid in USDC through x402. The paying wallet is the account: no key,
no sign-up, no gas. Winners split the pool less fees and are paid automatically.

A market's `status` is `open`, `closed` (takes no bets: betting has ended or not begun, and it is not settled),
`resolved` or `void` (stakes are refunded in full). `deadlineAt` is the second in which betting ends, before anything
that decides the market is measured: the contract accepts no bet in that second. `startAt` (up or down only) and
`endsAt` are the moments that decide; from `settlesAfter` on, the market can be settled. Amounts are exact USD with at
most 6 decimals; feed values of a token may have 8. Errors carry `error`, `message`, `hint`, `docsUrl`, `retriable` and
`requestId`; a 400 also has `issues`. `retriable` is true for `rate_limited`, `internal_error` and `platform_paused`,
and for every error with `final: false`. The codes `deposit_above_max`, `deposit_unconfirmed`, `deposit_mismatch` and
`deposit_tx_reused` are reserved and never sent; `payment_required` names the 402 in logs. Unknown query parameters are
listed in `meta.ignoredQuery`, each with the most similar known one.

Reads of markets, positions, results, proofs and stats have strong ETags: a request with `If-None-Match` gets an empty
304 if nothing has changed. A wallet has one book: its stakes made here and those that a partner sent to the contract
are listed together; a `builderCode` adds nothing to the builder's book. A trade id is the EIP-712 hash of the trade's
`Bet` under the domain `Service Settlement` 2 of the settlement contract.

Winners split the pool after fees. If it holds at least a dollar for every winning share, every share is paid the same.
Otherwise each winner first gets its stake less the fee back, and the losers' money is split in proportion to what the
winning shares promised beyond that, so a right bet never gets less than its stake less its fee. In that case
`payoutPerShareUsd` is null; a position has the exact `payoutUsd`. If there is no bet on the outcome that won, or none
on any other, every stake is refunded in full, fee included. `projectedPayoutUsd` is what a bet would be paid if its
side won with the current book; `warnings` name what is allowed but unwise: `pays_less_than_stake`,
`first_on_its_side`, `wallet_underfunded`, `closes_soon`."""

QUOTE = """\
Returns what a bet would get now, exactly as the contract computes it if no other bet comes first. Above 10 USD the
quote locks the price for 60 seconds, for one trade of this market, side and size. `suggestedMinSharesOut` is 1% below
the quoted shares and `suggestedMaxPriceCents` 1% above the price: a trade with one of these limits gets at least that
or is refused, and a small bet that comes first does not make it fail. A quote expires at `deadlineAt` at the latest;
from then on the market returns 409 `market_closed`. With `wallet`, the warnings also consider its balance. 30 a minute
per IP."""

TRADE = """\
Post the bet without a payment to get the 402 challenge; sign an EIP-3009 `transferWithAuthorization` of exactly the
amount to `payTo`; post the same body with the payment. Both versions of x402 work. Version 1: the challenge is the
body, the payment the header `X-PAYMENT`, base64 JSON `{x402Version: 1, scheme: "exact", network: "base", payload:
{signature, authorization: {from, to, value, validAfter, validBefore, nonce}}}`. Version 2: the challenge is the header
`PAYMENT-REQUIRED`, the payment the header `PAYMENT-SIGNATURE`, with `accepted` (the offer being paid; its scheme,
network `eip155:8453`, asset, amount and payTo are checked) instead of scheme and network. Numbers in an authorization
may be strings. `validBefore` is at most `maxTimeoutSeconds` from now. Two different payments in one request are a 400.

A payment has one of two forms; its nonce determines which. TRANSFER: `TransferWithAuthorization`, as stock x402
clients sign it, with a random nonce. With a random nonce the relayer decides which bet the payment is for; this
service uses it for the trade it was first sent with. With `extra.intentNonce` as nonce anyone may settle the bet
through the contract; with `extra.intentValidAfter` as `validAfter` as well, the payment is bound to this bet. RECEIVE:
the same fields signed as `ReceiveWithAuthorization` (`extra.receivePrimaryType`) with `extra.receiveNonce` as nonce.
Only the contract can collect such a payment, and only for this bet: you need not trust the relayer. The holder of a
bound signature chooses when to send it, until `validBefore`, so set `minSharesOut`. A payment whose nonce has one form
and whose signature has the other is refused with an explanation.

Anyone may send an authorization in transfer form to the token directly. The money still belongs to the payer's bet:
send the same request again, and once the block is final the payment is booked as the stake, or as a refund if it can
no longer be a stake or has another amount. It is booked even if you never come back. Less than 1 USDC is never booked:
it is a gift. After an authorization was used, no response asks for another; a new one is requested only when the index
shows that the old one was cancelled.

Checks run in this order: schema, market, idempotency key, trading on, market open, side, tier and quote, limits,
payment, balance. `simulate: true` skips the last two: it needs no money and no signature. `pool_impact_exceeded` has
`details`: `limit` (`price`: 40 points by one trade; `pot_cap`: what its side may hold while the other sides still have
room) and `largestSizeUsd`. A key belongs to its wallet: sent again with the same market, side, size and builder it
returns the first receipt, otherwise it is `idem_conflict`. While a payment may still be collected no response asks for
another: you get the receipt, 429 with `txHash` for a repeat while the first is settling, or 500 `internal_error` with
`txHash`. A payment that expired unused or was refused by the contract is requested again. A refusal with `final:
false` comes from a block that is not final: if the chain undoes that block, the signed bet may still be made. Send the
same request again to find out, which is why it is `retriable`. Limits: 10 a minute per wallet, where a challenge and
its paid retry count once; 300 a minute per address; and 120 calls a minute by one wallet from one address, paid or
not.

The challenge and the receipt of a real trade are signed in the EIP-712 form of the x402 offer-and-receipt extension
(`extensions["offer-receipt"].info`). The signing address is `attester` in `GET /health` and is listed for this origin
in `/.well-known/did.json`. `vpm verify` checks a receipt and a proof against any node."""

DISCOVER = """\
With `q`: markets on a cashtag in it come first (`matchKind` `exact`, score 1000 plus the number of open markets with a
smaller pool), then markets that share words with it (`related`, score the Jaccard similarity of the two sets of
words). With `post`: the post first passes a silence gate of fixed rules, then its text is ranked like a `q`. With
both, the gate reads the post and `q` is ranked. With neither: the most active open markets, each with reason `browse`.
Ties go to the earlier deadline, then to the id. No language model is involved."""

SENTIMENT = """\
The score is 100 x sum(pool x bullish probability) / sum(pool) over the token's open markets that have a direction:
`yes` and `up` are bullish, and so are the buckets of a range market above the current value. If every pool is 0, all
markets weigh the same; without a directional market the score is 50 and the basis `none`. Labels change at 80, 60, 40
and 20. Confidence is `high` from 20 bettors and 1,000 USD on directional markets, `medium` from 5 and 100, `low` from
any bet. Quality is `broad` from 10 bettors if none has 25% of the stakes, `concentrated` below 3 bettors or when one
has half, otherwise `mixed`. A token without markets is not an error: `hasSignal` is false. Data only, no advice."""

STREAM = """\
A server-sent event stream of one wallet's events: each `data:` is one event, the `id` its `seq`. It starts with past
events from `fromSeq` (0 by default) or after `Last-Event-ID`, then continues with new ones. A comment every 15 s keeps
it alive; after 300 s it closes: reconnect with `Last-Event-ID` and you miss nothing. A client that reads nothing for 5
s is disconnected."""

REPLAY = """\
A wallet's events in order from `fromSeq` on, at most 500 a page. `nextSeq` is null on the last page: continue later
from `lastSeq` + 1. `seq` counts from 0 without gaps. Events never change: if a reorganization undoes one, a correction
follows, an event of the same type with `undone: true` and `corrects` in its payload."""

RESOLVED = """\
A wallet's `market.resolved`, `position.won` and `position.lost` events after a time, oldest first. `nextSince` is null
on the last page: continue later from the last event's `createdAt`, with all its digits. If you truncate it to a second
or a millisecond, some events are repeated: skip known values of `eventId`."""

REGISTER = """\
Pushes a wallet's future events to a URL. The wallet signs `message`, with its key (EIP-191 `personal_sign`) or through
its contract (ERC-1271). The `secret` is returned only here. The endpoint is `pending_verification` until its response
to the `webhook.verify` event has the `challenge` of the payload (as the plain body, or as `challenge` in a JSON
object); the service retries for an hour. Registering the same URL again gives it a new id and secret; a `disabled`
webhook then starts with the next event, any other continues where it was. The URL must be https and resolve to public
addresses; redirects are not followed.

Each delivery has `Service-Event-Id`, `Service-Timestamp` (Unix seconds) and `Service-Signature: v1=<hex>`, the
HMAC-SHA256 of `<Service-Event-Id>.<Service-Timestamp>.<raw body>` with `secret` as key; refuse deliveries older than 5
minutes. Any 2xx within 8 s accepts a delivery. Otherwise it is retried nine times over 24 hours, and later events
wait. Then the service gives up on it and reports `webhook.delivery_failed` on the other channels; after 3 days of
nothing but failures, the webhook is `disabled`. Events that were not delivered are in `/events/replay`."""

TEST = """\
Sends a `test` event to this webhook, once; `note` says why it was not sent or not accepted. Waiting deliveries are
retried at once. A disabled webhook starts again with the handshake."""


def operations(
    *,
    channels: EventChannels,
    reads: AgentReads,
    platform: Platform,
    trade: Handler,
    discovery: Discovery,
    sentiment: Sentiment,
) -> tuple[Operation, ...]:
    tables = {
        "markets": _markets(reads, discovery, sentiment),
        "trading": _trading(reads, trade),
        "positions": _positions(reads, platform),
        "platform": _platform(platform),
        "events": events(channels),
    }
    return tuple(replace(each, group=group) for group, table in tables.items() for each in table)


def _get(
    path: str,
    handler: Handler,
    summary: str,
    model: type[Body],
    *usual: int,
    errors: Mapping[int, str] | None = None,
    **more: Any,
) -> Operation:
    answered = answers(f"{summary}.", model, *usual, errors=errors)
    return Operation("GET", f"{PREFIX}{path}", handler, summary, answered, **more)


def _markets(reads: AgentReads, discovery: Discovery, sentiment: Sentiment) -> tuple[Operation, ...]:
    markets, market = dict[str, Any](query=models.MarketsQuery), dict[str, Any](path_parameters=models.MarketPath)
    bad_token = {400: "`invalid_request`: a parameter is repeated.", 422: "`invalid_request`: `token` is not a symbol."}
    found = dict[str, Any](description=DISCOVER, query=DiscoverQuery)
    felt = dict[str, Any](description=SENTIMENT, query=SentimentQuery, errors=bad_token)
    return (
        _get("/markets", reads.markets, "List markets, earliest deadline first", Markets, 400, **markets),
        _get("/markets/{id}", reads.market, "Get a market with its odds and stats", OneMarket, 404, **market),
        _get("/markets/{id}/research", reads.research, "Get a market's research bundle", ResearchBody, 404, **market),
        _get("/discover", discovery.discover, "Find markets by text or social post", DiscoverBody, 400, **found),
        _get("/sentiment", sentiment.sentiment, "Get the crowd's view of a token", SentimentBody, 500, **felt),
    )


def _trading(reads: AgentReads, trade: Handler) -> tuple[Operation, ...]:
    return (
        _get(
            "/quote",
            reads.quote,
            "Price a bet",
            QuoteBody,
            *(400, 404, 429, 500),
            errors={
                409: "`market_closed`",
                422: "`size_below_min`, `invalid_side`, `invalid_wallet`, `unsupported_market`",
            },
            description=QUOTE,
            query=models.QuoteQuery,
        ),
        Operation(
            "POST",
            f"{PREFIX}/trade",
            trade,
            "Place or simulate a bet",
            {
                200: DocumentedAnswer(
                    "The receipt.",
                    TradeBody,
                    {
                        x402.SETTLED_HEADER: "Base64 of {success, transaction, network, payer}, x402 v2; absent when "
                        "simulated.",
                        x402.SETTLED_HEADER_V1: "The same in x402 v1.",
                    },
                ),
                400: BAD,
                402: DocumentedAnswer(
                    "The x402 challenge: v1 in the body, v2 in the header.",
                    Challenge,
                    {x402.REQUIRED_HEADER: "Base64 of the x402 v2 PaymentRequired."},
                ),
                404: refusal("`market_not_found`"),
                409: refusal("`market_closed`, `idem_conflict`"),
                422: refusal(
                    "`invalid_side`, `invalid_wallet`, `size_below_min`, `quote_required`, `quote_expired`, "
                    "`quote_mismatch`, `slippage_exceeded`, `insufficient_balance`, `pool_impact_exceeded`, "
                    "`unsupported_market`, `payment_invalid`"
                ),
                429: RATE,
                500: refusal("`internal_error`; with `txHash` when a transaction was submitted."),
                503: refusal("`platform_paused`"),
            },
            description=TRADE,
            described_by={"security": [], "x-payment-info": PAYMENT_INFO},
            body=models.TradeRequest,
            headers=models.PaymentHeaders,
        ),
    )


def _positions(reads: AgentReads, platform: Platform) -> tuple[Operation, ...]:
    no_proof = {404: "`not_found`: no settled trade has this id.", 503: "`internal_error`: retry shortly."}
    trade, wallet = dict[str, Any](path_parameters=models.TradePath), dict[str, Any](path_parameters=models.AddressPath)
    book, market = dict[str, Any](query=models.PositionsQuery), dict[str, Any](query=models.ResultQuery)
    ready = "Check whether a wallet can bet"
    return (
        _get("/positions", reads.positions, "List positions, newest first", PositionsBody, 400, 422, 429, 500, **book),
        _get("/result", reads.result, "Get a market's result", ResultBody, 400, 404, **market),
        _get("/proof/{tradeId}", reads.proof, "Get a trade's proof", TradeProofBody, errors=no_proof, **trade),
        _get("/wallet/{address}/readiness", platform.readiness, ready, ReadinessBody, 422, 429, **wallet),
    )


def _platform(platform: Platform) -> tuple[Operation, ...]:
    health = "Check whether bets are accepted: see `health.ok`, the status is always 200"
    return (
        _get("/stats", platform.stats, "Get statistics, cached for 60 s", StatsBody, 500),
        _get("/health", platform.health, health, HealthBody),
        _get("/getting-started", platform.getting_started, "Get the onboarding script, in six steps", GettingStarted),
    )


def events(channels: EventChannels) -> tuple[Operation, ...]:
    webhook, path = f"{PREFIX}/webhooks/{{id}}", dict[str, Any](path_parameters=models.WebhookPath)
    gone = {404: "`not_found`"}
    replay = dict[str, Any](description=REPLAY, query=models.ReplayQuery)
    resolved = dict[str, Any](description=RESOLVED, query=models.ResolvedQuery)
    stream = DocumentedAnswer("The stream.", content_type="text/event-stream")
    registered = DocumentedAnswer("The registration, with its secret.", WebhookBody)
    not_owned = refusal("`invalid_wallet`: malformed, or the signature is not the wallet's.")
    tested = answers("The event, and whether it was delivered.", TestBody, 400, 429, 500, errors=gone)
    removed = answers("It was removed.", DeletedBody, 500, errors=gone)
    return (
        Operation(
            "GET",
            f"{PREFIX}/events",
            channels.stream,
            "Stream a wallet's events",
            {200: stream, 400: BAD, 422: NO_WALLET, 429: RATE},
            description=STREAM,
            query=models.EventsQuery,
            headers=models.EventsHeaders,
            timed=False,
        ),
        _get("/events/replay", channels.replay, "List events in order", ReplayBody, 400, 422, 500, **replay),
        _get("/resolved", channels.resolved, "List market results", ResolvedBody, 400, 422, 500, **resolved),
        Operation(
            "POST",
            f"{PREFIX}/webhooks",
            channels.webhooks.register,
            "Register a webhook",
            {201: registered, 400: BAD, 422: not_owned, 429: RATE, 500: NO_DATABASE},
            description=REGISTER,
            body=models.WebhookRequest,
        ),
        _get("/webhooks/{id}", channels.webhooks.show, "Get a webhook's state", WebhookBody, 500, errors=gone, **path),
        Operation("DELETE", webhook, channels.webhooks.remove, "Remove a webhook", removed, **path),
        Operation(
            "POST",
            f"{webhook}/test",
            channels.webhooks.test,
            "Send a test event",
            tested,
            description=TEST,
            **path,
        ),
    )

"""The operations under /api/agent/v1, by group. Their long descriptions are in describe.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from api.agent import describe
from api.agent import requests as models
from api.agent.bodies import events as event_bodies
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
from api.operations import DocumentedAnswer, Handler, Operation

PREFIX = "/api/agent/v1"
# For directories of paid APIs. A bet has no fixed maximum; the largest quote is the limit.
PAYMENT_INFO = {
    "price": {"mode": "dynamic", "currency": "USD", "min": "1", "max": str(models.MAX_SIZE_USD)},
    "protocols": [{"x402": {}}],
}


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
        "positions": _positions(reads),
        "platform": _platform(platform),
        "events": events(channels),
    }
    return tuple(replace(each, group=group) for group, table in tables.items() for each in table)


def _get(path: str, handler: Handler, summary: str, answered: dict[int, DocumentedAnswer], **more: Any) -> Operation:
    return Operation("GET", f"{PREFIX}{path}", handler, summary, answered, **more)


def _markets(reads: AgentReads, discovery: Discovery, sentiment: Sentiment) -> tuple[Operation, ...]:
    return (
        _get(
            "/markets",
            reads.markets,
            "List tradeable markets",
            answers("A page of markets, soonest deadline first.", Markets, 400),
            query=models.MarketsQuery,
        ),
        _get(
            "/markets/{id}",
            reads.market,
            "Get a market",
            answers("The market, with live odds and stats.", OneMarket, 404),
            path_parameters=models.MarketPath,
        ),
        _get(
            "/markets/{id}/research",
            reads.research,
            "Get a market's research bundle",
            answers("Everything known about the market.", ResearchBody, 404),
            path_parameters=models.MarketPath,
        ),
        _get(
            "/discover",
            discovery.discover,
            "Find markets by text or social post",
            answers("The matches, best first.", DiscoverBody, 400),
            description=describe.DISCOVER,
            query=DiscoverQuery,
        ),
        _get(
            "/sentiment",
            sentiment.sentiment,
            "Get the crowd's view of a token",
            answers("The signal, even for a token without markets.", SentimentBody, 500)
            | {
                400: refusal("`invalid_request`: a parameter is repeated."),
                422: refusal("`invalid_request`: `token` is missing or not a symbol."),
            },
            description=describe.SENTIMENT,
            query=SentimentQuery,
        ),
    )


def _trading(reads: AgentReads, trade: Handler) -> tuple[Operation, ...]:
    return (
        _get(
            "/quote",
            reads.quote,
            "Price a bet",
            answers("The quote.", QuoteBody, 400, 404, 429, 500)
            | {
                409: refusal("`market_closed`"),
                422: refusal("`size_below_min`, `invalid_side`, `invalid_wallet`, `unsupported_market`"),
            },
            description=describe.QUOTE,
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
            description=describe.TRADE,
            described_by={"security": [], "x-payment-info": PAYMENT_INFO},
            body=models.TradeRequest,
            headers=models.PaymentHeaders,
        ),
    )


def _positions(reads: AgentReads) -> tuple[Operation, ...]:
    return (
        _get(
            "/positions",
            reads.positions,
            "List a wallet's positions, newest first",
            answers("The positions.", PositionsBody, 400, 422, 429, 500),
            query=models.PositionsQuery,
        ),
        _get(
            "/result",
            reads.result,
            "Get a market's result",
            answers("The result.", ResultBody, 400, 404),
            query=models.ResultQuery,
        ),
        _get(
            "/proof/{tradeId}",
            reads.proof,
            "Get a trade's settlement proof",
            answers("The proof.", TradeProofBody)
            | {404: refusal("`not_found`: no settled trade has this id."), 503: NO_DATABASE},
            path_parameters=models.TradePath,
        ),
        _get(
            "/wallet/{address}/readiness",
            reads.readiness,
            "Check whether a wallet can bet",
            answers("The wallet's balance, and what it needs before it can bet.", ReadinessBody, 422, 429),
            path_parameters=models.AddressPath,
        ),
    )


def _platform(platform: Platform) -> tuple[Operation, ...]:
    return (
        _get("/stats", platform.stats, "Get statistics", answers("Cached for 60 s.", StatsBody, 500)),
        _get(
            "/health",
            platform.health,
            "Check whether bets are accepted",
            answers("The state of the service. The status is 200 even while degraded: check `health.ok`.", HealthBody),
        ),
        _get(
            "/getting-started",
            platform.getting_started,
            "Get the onboarding script, in six steps",
            answers("The script.", GettingStarted),
        ),
    )


def events(channels: EventChannels) -> tuple[Operation, ...]:
    gone = {404: refusal("`not_found`")}
    webhook = f"{PREFIX}/webhooks/{{id}}"
    return (
        _get(
            "/events",
            channels.events.stream,
            "Stream a wallet's events",
            {
                200: DocumentedAnswer("The stream.", content_type="text/event-stream"),
                400: BAD,
                422: NO_WALLET,
                429: RATE,
            },
            description=describe.STREAM,
            query=models.EventsQuery,
            headers=models.EventsHeaders,
            timed=False,
        ),
        _get(
            "/events/replay",
            channels.events.replay,
            "List a wallet's events in order",
            answers("A page of events.", event_bodies.ReplayBody, 400, 422, 500),
            description=describe.REPLAY,
            query=models.ReplayQuery,
        ),
        _get(
            "/resolved",
            channels.events.resolved,
            "List the results of a wallet's markets",
            answers("A page of events.", event_bodies.ResolvedBody, 400, 422, 500),
            description=describe.RESOLVED,
            query=models.ResolvedQuery,
        ),
        Operation(
            "POST",
            f"{PREFIX}/webhooks",
            channels.webhooks.register,
            "Register a webhook",
            {
                201: DocumentedAnswer("The registration, with its secret.", event_bodies.WebhookBody),
                400: BAD,
                422: refusal("`invalid_wallet`: malformed, or the signature is not the wallet's."),
                429: RATE,
                500: NO_DATABASE,
            },
            description=describe.REGISTER,
            body=models.WebhookRequest,
        ),
        _get(
            "/webhooks/{id}",
            channels.webhooks.show,
            "Get a webhook's state",
            answers("The registration, without its secret.", event_bodies.WebhookBody, 500) | gone,
            path_parameters=models.WebhookPath,
        ),
        Operation(
            "DELETE",
            webhook,
            channels.webhooks.remove,
            "Remove a webhook",
            answers("It was removed.", event_bodies.DeletedBody, 500) | gone,
            path_parameters=models.WebhookPath,
        ),
        Operation(
            "POST",
            f"{webhook}/test",
            channels.webhooks.test,
            "Send a test event",
            answers("The event, and whether it was delivered.", event_bodies.TestBody, 400, 429, 500) | gone,
            description=describe.TEST,
            path_parameters=models.WebhookPath,
        ),
    )

"""The addresses under /api/agent/v1, by part of the surface: a route is added in the table of its part. Those of the
events are in notices/channels.py, of the discovery in discover/search.py, of the sentiment in sentiment.py."""

from __future__ import annotations

from dataclasses import replace

from api.agent import requests as models
from api.agent.bodies.markets import Markets, OneMarket
from api.agent.bodies.parts import BAD, NO_DATABASE, RATE, answers, refusal
from api.agent.bodies.platform import GettingStarted, HealthBody, ReadinessBody, StatsBody
from api.agent.bodies.positions import PositionsBody
from api.agent.bodies.quotes import QuoteBody
from api.agent.bodies.research import ResearchBody
from api.agent.bodies.results import ResultBody
from api.agent.bodies.trades import Challenge, TradeBody, TradeProofBody
from api.agent.describe import QUOTE, TRADE
from api.agent.discover.search import Discovery
from api.agent.notices.channels import EventChannels
from api.agent.platform import Platform
from api.agent.reads import Reads
from api.agent.sentiment import Sentiment
from api.agent.trade import x402
from api.agent.trade.trading import NotDeployedHandler, TradeHandler
from api.http.operation import DocumentedAnswer, Operation

PREFIX = "/api/agent/v1"
# What directories of paid interfaces read. A bet has no maximum of its own; what a quote takes at most bounds it.
PAYMENT_INFO = {
    "price": {"mode": "dynamic", "currency": "USD", "min": "1", "max": str(models.MAX_SIZE_USD)},
    "protocols": [{"x402": {}}],
}
_NOT_FOUND = refusal("`market_not_found`")


def operations(
    *,
    channels: EventChannels,
    reads: Reads,
    platform: Platform,
    handler: TradeHandler | NotDeployedHandler,
    discovery: Discovery,
    sentiment: Sentiment,
) -> tuple[Operation, ...]:
    """Each in its group."""
    tables = {
        "markets": _markets(reads, discovery, sentiment),
        "trading": _trading(reads, handler),
        "positions": _positions(reads),
        "platform": _platform(platform),
        "events": channels.operations(PREFIX),
    }
    return tuple(replace(each, group=group) for group, table in tables.items() for each in table)


def _markets(reads: Reads, discovery: Discovery, sentiment: Sentiment) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            f"{PREFIX}/markets",
            reads.markets,
            "List tradeable markets",
            answers("A page of markets, soonest deadline first.", Markets, 400),
            query=models.MarketsQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/markets/{{id}}",
            reads.market,
            "One market",
            answers("The market, with live odds and stats.", OneMarket) | {404: _NOT_FOUND},
            path_parameters=models.MarketPath,
        ),
        Operation(
            "GET",
            f"{PREFIX}/markets/{{id}}/research",
            reads.research,
            "Research bundle",
            answers("Everything known of the market.", ResearchBody) | {404: _NOT_FOUND},
            path_parameters=models.MarketPath,
        ),
        discovery.operation(PREFIX),
        sentiment.operation(PREFIX),
    )


def _trading(reads: Reads, handler: TradeHandler | NotDeployedHandler) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            f"{PREFIX}/quote",
            reads.quote,
            "Price a bet",
            answers("The quote.", QuoteBody, 400, 429, 500)
            | {
                404: _NOT_FOUND,
                409: refusal("`market_closed`"),
                422: refusal("`size_below_min`, `invalid_side`, `invalid_wallet`, `unsupported_market`"),
            },
            description=QUOTE,
            query=models.QuoteQuery,
        ),
        Operation(
            "POST",
            f"{PREFIX}/trade",
            handler.trade,
            "Place or simulate a bet",
            {
                200: DocumentedAnswer(
                    "The receipt.",
                    TradeBody,
                    {
                        x402.SETTLED_HEADER: "Base64 of {success, transaction, network, payer}, x402 v2; not when "
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
                404: _NOT_FOUND,
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


def _positions(reads: Reads) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            f"{PREFIX}/positions",
            reads.positions,
            "A wallet's positions, newest first",
            answers("The positions.", PositionsBody, 400, 422, 429, 500),
            query=models.PositionsQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/result",
            reads.result,
            "How a market resolved",
            answers("The result.", ResultBody, 400) | {404: _NOT_FOUND},
            query=models.ResultQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/proof/{{tradeId}}",
            reads.proof,
            "Settlement proof of a trade",
            answers("The proof.", TradeProofBody)
            | {404: refusal("`not_found`: no settled trade has this id."), 503: NO_DATABASE},
            path_parameters=models.TradePath,
        ),
        Operation(
            "GET",
            f"{PREFIX}/wallet/{{address}}/readiness",
            reads.readiness,
            "Can this wallet bet?",
            answers("Its balance and what is missing.", ReadinessBody, 422, 429),
            path_parameters=models.AddressPath,
        ),
    )


def _platform(platform: Platform) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            f"{PREFIX}/stats",
            platform.stats,
            "Platform statistics",
            answers("Cached for 60 s.", StatsBody, 500),
        ),
        Operation(
            "GET",
            f"{PREFIX}/health",
            platform.health,
            "Liveness and trading status",
            answers("Also when degraded: branch on `health.ok`.", HealthBody),
        ),
        Operation(
            "GET",
            f"{PREFIX}/getting-started",
            platform.getting_started,
            "Onboarding in six steps",
            answers("The script.", GettingStarted),
        ),
    )

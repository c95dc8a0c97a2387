"""The agent surface, assembled: its parts started, its operations declared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from aiohttp import web

from api.agent import bodies as answers
from api.agent import requests as models
from api.agent.bodies import BAD, NO_WALLET, RATE, UNREADABLE, refusal
from api.agent.chain import AgentContracts, Balances
from api.agent.describe import DESCRIPTION, QUOTE, TRADE
from api.agent.discover.search import Discovery
from api.agent.errors import error_body, problem
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.mcp import AgentMcp
from api.agent.notices.channels import EventChannels
from api.agent.platform import Platform
from api.agent.reads import Reads
from api.agent.sentiment import Sentiment
from api.agent.switch import Trading
from api.agent.trade import x402
from api.agent.trade.attest import Attester
from api.agent.trade.trading import PrelaunchDesk, TradeDesk
from api.context import Context
from api.http.application import json_response
from api.http.asked import Asked
from api.http.mcp_door import HEADERS as MCP_HEADERS
from api.http.operation import Cors, DocumentedAnswer, ErrorBody, Operation, Surface
from api.http.problem import Problem
from api.http.requests import request_id
from core.contracts.deployments import load_deployment
from core.db.switches import SwitchWatcher
from core.feeds.words import told_by
from core.log import get_logger

log = get_logger(__name__)

PREFIX = "/api/agent/v1"
PREFIXES = ("/api/agent/",)
NAME, TITLE = "agent", "Agent API"
CORS = Cors(
    # The official x402 clients send Access-Control-Expose-Headers as a request header, so browsers ask for it too.
    allow_headers=(
        "Content-Type",
        *x402.PAYMENT_HEADERS,
        "If-None-Match",
        "Last-Event-ID",
        "Access-Control-Expose-Headers",
        *MCP_HEADERS,
    ),
    expose_headers=(
        "ETag",
        x402.REQUIRED_HEADER,
        x402.SETTLED_HEADER,
        x402.SETTLED_HEADER_V1,
        "Retry-After",
        "X-Request-Id",
    ),
)


@asynccontextmanager
async def agent_surface(context: Context) -> AsyncIterator[Surface]:
    """The surface, with its readers running beside it while the context is open."""
    settings = context.settings
    chain = settings.chain("base")
    deployment = load_deployment(chain.deployment_file)
    contracts = AgentContracts.of(deployment)
    links = Links(
        origin=settings.public_url.rstrip("/"),
        explorer=deployment.explorer_url,
        settlement="" if contracts is None else contracts.settlement.address,
    )
    wording = partial(error_body, docs_url=links.errors)
    if not settings.agent_enabled:
        yield _switched_off(wording)
        return
    client, balances = await context.chains.client("base"), None
    if client is None:
        log.warning("no RPC URL for Base: no balances, no trades", action="agent.no_rpc")
    elif contracts is not None:
        balances = Balances(client, contracts, settings.rpc_request_path_timeout_seconds)
    feeds = told_by(deployment.agent_feeds)
    index = AgentIndex(
        context.write_url,
        context.engine,
        deployment.chain_id,
        feeds,
        deployed=deployment.is_deployed,
        replica=context.has_replica,
    )
    await index.refresh()
    context.spawn("agent index", index.run())
    switches = SwitchWatcher(context.write_url, context.pool)
    context.spawn("operator switches", switches.run())
    switch = Trading(
        settings.trading_paused,
        switches,
        deployed=contracts is not None,
        blocks_are_regular=deployment.blocks_are_regular,
    )
    secret = context.secrets.attestation_key
    attester = Attester(None if secret is None else secret.get_secret_value(), deployment.chain_id)
    if attester.address is None:
        log.warning("no attestation key: offers and receipts go out unsigned", action="agent.unsigned")
    channels = EventChannels(context, links, client)
    channels.run_beside(context)
    reads = Reads(context, contracts, balances, index, links, deployment.chain_id)
    platform = Platform(
        context.engine,
        context.pool,
        index,
        switch,
        links,
        deployment.chain_id,
        client=client,
        attester=attester.address,
    )
    desk = (
        PrelaunchDesk(context)
        if contracts is None
        else TradeDesk(context, contracts, client, balances, index, switch, attester, links)
    )
    asked = Asked(context.limits, settings, RATE)
    operations = asked.counted(
        _operations(
            channels=channels,
            reads=reads,
            platform=platform,
            desk=desk,
            discovery=Discovery(index, links),
            sentiment=Sentiment(context.engine, index, links),
        )
    )
    mcp = AgentMcp(operations, wording, origin=links.origin)
    async with mcp.door.running():
        yield Surface(
            name=NAME,
            title=TITLE,
            description=DESCRIPTION,
            prefixes=PREFIXES,
            error_body=wording,
            cors=CORS,
            reads=(reads, platform),
            examples=lambda: {TRADE_ID: example} if (example := reads.example()) is not None else {},
            operations=(
                *operations,
                *(replace(each, group="platform") for each in asked.counted(mcp.door.operations())),
            ),
        )


def _switched_off(wording: ErrorBody) -> Surface:
    """Every path is 404 while the platform flag is off."""

    def off(request: web.Request, _raised: Problem) -> web.StreamResponse:
        why = problem("platform_disabled", "The agent platform is switched off.")
        return json_response(wording(why, request_id(request)), why.status)

    return Surface(
        name=NAME,
        title=TITLE,
        description="Switched off.",
        prefixes=PREFIXES,
        operations=(),
        error_body=wording,
        error_response=off,
        cors=CORS,
    )


_NOT_FOUND = refusal("`market_not_found`")


def _operations(
    *,
    channels: EventChannels,
    reads: Reads,
    platform: Platform,
    desk: TradeDesk | PrelaunchDesk,
    discovery: Discovery,
    sentiment: Sentiment,
) -> tuple[Operation, ...]:
    return _grouped(
        Operation(
            "GET",
            f"{PREFIX}/markets",
            reads.markets,
            "List tradeable markets",
            {200: DocumentedAnswer("A page of markets, soonest deadline first.", answers.Markets), 400: BAD},
            query=models.MarketsQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/markets/{{id}}",
            reads.market,
            "One market",
            {200: DocumentedAnswer("The market, with live odds and stats.", answers.OneMarket), 404: _NOT_FOUND},
            path_parameters=models.MarketPath,
        ),
        Operation(
            "GET",
            f"{PREFIX}/markets/{{id}}/research",
            reads.research,
            "Research bundle",
            {200: DocumentedAnswer("Everything known of the market.", answers.ResearchBody), 404: _NOT_FOUND},
            path_parameters=models.MarketPath,
        ),
        discovery.operation(PREFIX),
        sentiment.operation(PREFIX),
        Operation(
            "GET",
            f"{PREFIX}/quote",
            reads.quote,
            "Price a bet",
            {
                200: DocumentedAnswer("The quote.", answers.QuoteBody),
                400: BAD,
                404: _NOT_FOUND,
                409: refusal("`market_closed`"),
                422: refusal("`size_below_min`, `invalid_side`, `invalid_wallet`, `unsupported_market`"),
                429: RATE,
                500: UNREADABLE,
            },
            description=QUOTE,
            query=models.QuoteQuery,
        ),
        Operation(
            "POST",
            f"{PREFIX}/trade",
            desk.trade,
            "Place or simulate a bet",
            {
                200: DocumentedAnswer(
                    "The receipt.",
                    answers.TradeBody,
                    {
                        x402.SETTLED_HEADER: "Base64 of {success, transaction, network, payer}, x402 v2; not when "
                        "simulated.",
                        x402.SETTLED_HEADER_V1: "The same in x402 v1.",
                    },
                ),
                400: BAD,
                402: DocumentedAnswer(
                    "The x402 challenge: v1 in the body, v2 in the header.",
                    answers.Challenge,
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
        Operation(
            "GET",
            f"{PREFIX}/positions",
            reads.positions,
            "A wallet's positions, newest first",
            {
                200: DocumentedAnswer("The positions.", answers.PositionsBody),
                400: BAD,
                422: NO_WALLET,
                429: RATE,
                500: UNREADABLE,
            },
            query=models.PositionsQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/result",
            reads.result,
            "How a market resolved",
            {200: DocumentedAnswer("The result.", answers.ResultBody), 400: BAD, 404: _NOT_FOUND},
            query=models.ResultQuery,
        ),
        Operation(
            "GET",
            f"{PREFIX}/proof/{{tradeId}}",
            reads.proof,
            "Settlement proof of a trade",
            {
                200: DocumentedAnswer("The proof.", answers.TradeProofBody),
                404: refusal("`not_found`: no settled trade has this id."),
                503: UNREADABLE,
            },
            path_parameters=models.TradePath,
        ),
        Operation(
            "GET",
            f"{PREFIX}/wallet/{{address}}/readiness",
            reads.readiness,
            "Can this wallet bet?",
            {
                200: DocumentedAnswer("Its balance and what is missing.", answers.ReadinessBody),
                422: NO_WALLET,
                429: RATE,
            },
            path_parameters=models.AddressPath,
        ),
        Operation(
            "GET",
            f"{PREFIX}/stats",
            platform.stats,
            "Platform statistics",
            {200: DocumentedAnswer("Cached for 60 s.", answers.StatsBody), 500: UNREADABLE},
        ),
        Operation(
            "GET",
            f"{PREFIX}/health",
            platform.health,
            "Liveness and trading status",
            {200: DocumentedAnswer("Also when degraded: branch on `health.ok`.", answers.HealthBody)},
        ),
        Operation(
            "GET",
            f"{PREFIX}/getting-started",
            platform.getting_started,
            "Onboarding in six steps",
            {200: DocumentedAnswer("The script.", answers.GettingStarted)},
        ),
        *channels.operations(PREFIX),
    )


TRADE_ID = "post_api_agent_v1_trade"
# What directories of paid interfaces read. A bet has no maximum of its own; what a quote takes at most bounds it.
PAYMENT_INFO = {
    "price": {"mode": "dynamic", "currency": "USD", "min": "1", "max": str(models.MAX_SIZE_USD)},
    "protocols": [{"x402": {}}],
}
GROUPS = {
    "markets": ("markets", "discover", "sentiment"),
    "trading": ("quote", "trade"),
    "positions": ("positions", "result", "proof", "wallet"),
    "platform": ("stats", "health", "getting-started"),
    "events": ("webhooks", "events", "resolved"),
}


def _grouped(*operations: Operation) -> tuple[Operation, ...]:
    """Each in the group of its path's first part."""
    group_of = {part: group for group, parts in GROUPS.items() for part in parts}
    return tuple(
        replace(each, group=group_of[each.path.removeprefix(f"{PREFIX}/").partition("/")[0]]) for each in operations
    )

"""The agent surface: starts its parts and lists its operations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from aiohttp import web

from api.agent import routes
from api.agent.bodies.parts import RATE
from api.agent.chain import AgentContracts, Balances
from api.agent.discovery import Discovery
from api.agent.errors import error_body, problem
from api.agent.facts import Links
from api.agent.index import AgentIndex, AgentParts, Trading
from api.agent.mcp import AgentMcp
from api.agent.notices.events import EventChannels
from api.agent.platform import Platform
from api.agent.reads import AgentReads
from api.agent.sentiment import Sentiment
from api.agent.trade.answers import Attester
from api.agent.trade.trading import TradeHandler, counted, refuse_undeployed
from api.caching import json_response
from api.context import Context
from api.limits import RequestQuota
from api.operations import ErrorBody, Handler, Surface
from api.problems import Problem, request_id
from core.contracts.deployments import load_deployment
from core.db.switches import SwitchWatcher
from core.feeds.words import feed_words
from core.log import get_logger

log = get_logger(__name__)

PREFIXES = ("/api/agent/",)
NAME, TITLE = "agent", "Agent API"
TRADE_ID = "post_api_agent_v1_trade"


@asynccontextmanager
async def agent_surface(context: Context) -> AsyncIterator[Surface]:
    """Yield the surface; its readers run in the background while the context is open."""
    settings = context.settings
    chain = settings.chain("base")
    deployment = load_deployment(chain.deployment_file)
    contracts = AgentContracts.from_deployment(deployment)
    links = Links(
        origin=settings.public_url.rstrip("/"),
        explorer=deployment.explorer_url,
        settlement="" if contracts is None else contracts.settlement.address,
    )
    wording = partial(error_body, docs_url=links.errors)
    if not settings.agent_enabled:
        yield _switched_off(wording)
        return
    client = await context.chains.client("base")
    if client is None:
        log.warning("no RPC URL for Base: balances and trades are unavailable", action="agent.no_rpc")
    index = AgentIndex(
        context.write_url,
        context.engine,
        deployment.chain_id,
        feed_words(deployment.agent_feeds),
        deployed=contracts is not None,
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
    balances = Balances(client, contracts, settings.rpc_request_path_timeout_seconds)
    parts = AgentParts(context, deployment.chain_id, contracts, client, links, index, switch, balances)
    secret = context.secrets.attestation_key
    attester = Attester(None if secret is None else secret.get_secret_value())
    if attester.address is None:
        log.warning("no attestation key: offers, receipts and callbacks are not signed", action="agent.unsigned")
    channels = EventChannels(context, links, client)
    channels.start(context)
    reads = AgentReads(parts)
    platform = Platform(parts, attester.address)
    trade: Handler = partial(refuse_undeployed, context)
    if contracts is not None:
        trade = TradeHandler(parts, contracts, attester).trade
    quota = RequestQuota(context.limits, settings, RATE)
    operations = quota.counted(
        routes.operations(
            channels=channels,
            reads=reads,
            platform=platform,
            trade=counted(trade),
            discovery=Discovery(parts),
            sentiment=Sentiment(parts),
        )
    )
    mcp = AgentMcp(operations, wording, origin=links.origin)
    async with mcp.endpoint.running():
        yield Surface(
            name=NAME,
            title=TITLE,
            description=routes.DESCRIPTION,
            prefixes=PREFIXES,
            error_body=wording,
            reads=(reads, platform),
            examples=lambda: {TRADE_ID: example} if (example := reads.example()) is not None else {},
            operations=(
                *operations,
                *(replace(each, group="platform") for each in quota.counted(mcp.endpoint.operations())),
            ),
        )


def _switched_off(wording: ErrorBody) -> Surface:
    """Return a surface that responds with 404 on every path."""

    def off(request: web.Request, _raised: Problem) -> web.StreamResponse:
        why = problem("platform_disabled", "The agent platform is switched off.")
        return json_response(wording(why, request_id(request)), why.status)

    return Surface(NAME, TITLE, "Switched off.", PREFIXES, (), wording, error_response=off)

"""Assembles the pages, which read from the other surfaces in the same process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from eth_account import Account
from pydantic import SecretStr

from api.agent.chain import TOKEN_SYMBOL
from api.agent.reads import AgentReads
from api.caching import NO_STORE, json_response
from api.context import Context
from api.cup.service import CupService
from api.limits import RequestQuota, caller_ip
from api.openapi import ServiceDescription
from api.operations import DocumentedAnswer, Handler, Operation, Surface
from api.problems import Problem, unavailable
from api.stock.proof import Proof
from api.stock.reads import StockReads
from api.stock.sources import STOCK_TOKEN_SYMBOL
from api.web.agent import agent_market_page
from api.web.assets import PREFIX as ASSETS
from api.web.assets import load_assets
from api.web.cup import CupPages
from api.web.documents import XML, documents, sitemap
from api.web.home import HomePage, MarketActivity
from api.web.portfolio import PortfolioPage
from api.web.reference import Reference
from api.web.sharing import PNG, SharePictures
from api.web.stock import ChartHistory, StockPages
from api.web.templating import HTML, NAVIGATION, SECURITY, Pages, fixed
from core.config import Settings
from core.contracts.deployments import Deployment, load_deployment
from core.errors import ConfigError

T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


async def pages_surface(context: Context, made: Sequence[Surface]) -> Surface:
    """Make the pages for the surfaces in `made`. Agent markets have pages only if the agent API is switched on."""
    settings = context.settings
    stock = load_deployment(settings.chain("stock").deployment_file)
    base = load_deployment(settings.chain("base").deployment_file)
    explorers = {"stock": stock.explorer_url, "base": base.explorer_url}
    demo = demo_wallet(context.secrets.demo_wallet_key, (stock, base))
    nodes = local_nodes(settings, (stock, base))
    chains = {
        "stock": chain_for_wallets(nodes.get("stock"), stock, "VestedMarkets", STOCK_TOKEN_SYMBOL),
        "base": chain_for_wallets(nodes.get("base"), base, "SettlementWallet", TOKEN_SYMBOL),
    }
    assets, origin = await load_assets(), settings.public_url.rstrip("/")
    pages = Pages(assets, origin, {"chains": chains, "demo": demo}, explorers)
    agent = next(_parts(made, AgentReads), None)
    operations = [
        _page(f"{ASSETS}{{name}}", assets.serve, "A static file", "text/css"),
        *_pages(context, pages, made, agent, stock, base),
    ]
    for path, body, summary, content_type in documents(pages, origin, base, stock, agent, context.attester):
        operations.append(_page(path, await fixed(body, content_type), summary, content_type))
    quota = RequestQuota(context.limits, settings, DocumentedAnswer("Too many requests."), pages=True)
    return Surface(
        name="pages",
        title="Pages",
        description="",
        prefixes=("/",),
        operations=quota.counted(operations),
        error_response=partial(_error, pages),
    )


def _pages(
    context: Context,
    pages: Pages,
    made: Sequence[Surface],
    agent: AgentReads | None,
    stock: Deployment,
    base: Deployment,
) -> Iterator[Operation]:
    reads, proof, service = next(_parts(made, StockReads)), next(_parts(made, Proof)), next(_parts(made, CupService))
    activity = MarketActivity(context.engine, reads, agent)
    yield _page("/", HomePage(pages, reads, proof, agent, activity).get, "Live markets")
    history = ChartHistory(context.engine, stock.chain_id)
    yield _page("/m/{id}", StockPages(pages, reads, history, stock).market, "A stock market")

    async def proof_page(request: web.Request) -> web.StreamResponse:
        body, tag = await proof.shown()

        async def render() -> bytes:
            return pages.render("proof.html", path="/proof", proof=body, base=base)

        return await pages.answer(request, "proof", tag, render)

    yield _page("/proof", proof_page, "Where the money went, and how to verify it")
    portfolio = PortfolioPage(pages, (reads, agent, service), context.limits, context.settings)
    yield _page("/positions", portfolio.get, "An address's positions")
    cup = CupPages(pages, service)
    yield _page("/cup", cup.board, "The tournament's board")
    yield _page("/roulette", cup.roulette, "The wheel")
    yield _page("/how", pages.static_page("how", partial(pages.render, "how.html", path="/how")), "How it works")
    reference = Reference(pages, next(_parts(made, ServiceDescription)), reads, agent)
    yield _page("/docs", reference.overview, "The documentation")
    yield _page("/docs/{group}", reference.group, "One page of the documentation")
    origin, always = context.settings.public_url.rstrip("/"), (href for href, _ in NAVIGATION if href != "/positions")
    yield _page("/sitemap.xml", sitemap(pages, origin, tuple(always), reads, agent), "The sitemap", XML)
    pictures = SharePictures(reads, agent, partial(caller_ip, settings=context.settings))
    yield _page("/share.png", pictures.site, "The site's preview picture", PNG)
    yield _page("/icon-{size:180|192|512}.png", pictures.icon, "The site's icon", PNG)
    yield _page("/m/{id}/share.png", pictures.stock_market, "A market's picture", PNG)
    if agent is not None:
        yield _page("/markets/{id}", partial(agent_market_page, pages, agent), "An agent market")
        yield _page("/markets/{id}/share.png", pictures.agent_market, "A market's picture", PNG)


def local_nodes(settings: Settings, deployments: Sequence[Deployment]) -> dict[str, str]:
    """Return the URLs of this machine's nodes by chain, for wallets to use, if every chain is local. URLs of a live
    deployment are never returned: it may use a gateway on this machine whose URL contains a key."""
    if any(each.kind != "local" for each in deployments):
        return {}
    urls = {name: settings.chain(name).rpc_urls[:1] for name in ("stock", "base")}
    return {name: url for name, each in urls.items() for url in each if urlsplit(url).hostname in LOOPBACK}


def chain_for_wallets(node: str | None, deployment: Deployment, settler: str, symbol: str) -> dict[str, Any]:
    """Return what a wallet needs to add a chain, and what the page needs to show a bet on it."""
    token = deployment.token(symbol)
    return {
        "id": deployment.chain_id,
        "name": deployment.name,
        "rpc": [] if node is None else [node],
        "explorer": deployment.explorer_url,
        "token": token.address,
        "symbol": token.symbol,
        "settler": deployment.contracts[settler].address if settler in deployment.contracts else "",
    }


def demo_wallet(key: SecretStr | None, deployments: Iterable[Deployment]) -> dict[str, str] | None:
    """Return the funded key that all visitors may bet with, if one is set. Raise ConfigError if a chain is live."""
    if key is None:
        return None
    if live := [each.name for each in deployments if each.kind != "local"]:
        raise ConfigError(
            f"VPM_DEMO_WALLET_KEY is sent to every visitor, but {live[0]} is not a local chain. Unset it."
        )
    value = key.get_secret_value()
    return {"address": str(Account.from_key(value).address), "key": value}


def _parts(made: Sequence[Surface], kind: type[T]) -> Iterator[T]:
    return (each for surface in made for each in surface.reads if isinstance(each, kind))


def _page(path: str, handler: Handler, summary: str, content_type: str = HTML) -> Operation:
    answers = {200: DocumentedAnswer(summary, content_type=content_type)}
    return Operation("GET", path, _temporary_500_as_503(handler), summary, answers, hidden=True)


def _temporary_500_as_503(handler: Handler) -> Handler:
    """Turn the temporary 500 that the agent API's specification demands into a 503 for browsers and crawlers."""

    async def handled(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as problem:
            if problem.status == 500 and "Retry-After" in problem.headers:
                raise unavailable(problem.message) from None
            raise

    return handled


def _error(pages: Pages, request: web.Request, problem: Problem) -> web.StreamResponse:
    """Return an error as a page, or as JSON under /api."""
    if request.path == "/api" or request.path.startswith("/api/"):
        return json_response(problem.body, problem.status, headers=problem.headers)
    body = pages.render("error.html", path="", problem=problem)
    response = web.Response(body=body, status=problem.status, content_type="text/html", charset="utf-8")
    kept = {"Cache-Control": NO_STORE, "X-Content-Type-Options": "nosniff"}
    response.headers.update({**SECURITY, **problem.headers, **kept})
    return response

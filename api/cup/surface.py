"""The tournament surface: its operations and their handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from api.caching import NO_STORE, json_response
from api.context import Context, writing_pool
from api.cup import bodies, requests
from api.cup.download import Download
from api.cup.mcp import cup_mcp
from api.cup.service import CupService, ServiceMethod
from api.limits import RequestQuota, caller_ip
from api.operations import Answers, Body, DocumentedAnswer, Operation, Surface
from api.problems import Problem
from api.requests import read_json, read_path, read_query, validated_body
from core.config import Settings

DESCRIPTION = (
    "A paper-money tournament: every wallet claims 10,000 pUSDC once and uses it for paper markets and roulette. "
    "Real trades and bets need an EIP-191 signature; simulations do not. While the tournament is not running, every "
    "operation returns 409 `cup_closed`. Agents get the same operations as MCP tools at /api/cup/mcp. Unknown query "
    "parameters are listed in `meta.ignoredQuery`, each with the nearest known name."
)
BASE = "/api/cup/v1"
FOR_READS = "public, max-age=2, s-maxage=2"
BODY_LIMIT = 16 * 1024
# The caller, where it does not matter.
ANONYMOUS = ""

R = TypeVar("R")
M = TypeVar("M", bound=requests.Request)
B = TypeVar("B", bound=Body)


@asynccontextmanager
async def cup_surface(context: Context) -> AsyncIterator[Surface]:
    settings = context.settings
    # A separate pool: paper players waiting for one row must not use up the connections that real bets need.
    pool = writing_pool(settings, "vpm-api-cup")
    service = CupService(settings, pool, context.limits)

    def error_body(problem: Problem, _request_id: str) -> Mapping[str, Any]:
        return service.error(problem)

    rest = Rest(settings, service)
    download = Download(settings, service, context.limits, context.read_url)
    quota = RequestQuota(context.limits, settings, _answers.refusal("`rate_limited`", 429))
    operations = quota.counted(_operations(rest, service, download))
    mcp = cup_mcp(settings, service, operations, error_body)
    async with pool, mcp.running():
        yield Surface(
            name="cup",
            title="Paper tournament",
            description=DESCRIPTION,
            prefixes=("/api/cup/",),
            error_body=error_body,
            reads=(service,),
            operations=(*operations, *quota.counted(mcp.operations())),
        )


_CLOSED = "`cup_closed`: the tournament is not running."
_HALTED = "`cup_agent_trades_halted`: enroll the wallet and send the same request again; or `unavailable`."
_answers = Answers(
    bodies.CupError,
    {
        400: "`invalid_request`: `details` names the field.",
        401: "`invalid_signature`, with `reason`.",
        402: "`insufficient_funds`, with `balance` and `needed`.",
        404: "`market_not_found`",
        409: _CLOSED,
        413: "`payload_too_large`",
        415: "`unsupported_media_type`",
        429: "`rate_limited`",
        503: "`unavailable`: the database cannot be reached; try again.",
    },
)


class Rest:
    """Declares operations that call the service. A handler checks that the tournament is open before it reads the
    request."""

    def __init__(self, settings: Settings, service: CupService) -> None:
        self._settings = settings
        self._service = service

    def get(
        self,
        path: str,
        method: ServiceMethod[R, B],
        read: Callable[[web.Request], R],
        summary: str,
        model: type[B],
        errors: Mapping[int, str] | None = None,
        cache: str = FOR_READS,
        **more: Any,
    ) -> Operation:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._service.require_open()
            return json_response(await self._service.answer(method, read(request), ANONYMOUS), cache_control=cache)

        usual = (409, 503) if "query" not in more and "path_parameters" not in more else (400, 409, 503)
        answers = _answers("Cached for a few seconds.", model, *usual, errors=errors)
        return Operation("GET", f"{BASE}{path}", handle, summary, answers, **more)

    def query(
        self, path: str, method: ServiceMethod[M, B], query: type[M], summary: str, model: type[B], **more: Any
    ) -> Operation:
        return self.get(path, method, lambda request: read_query(request, query), summary, model, query=query, **more)

    def post(
        self,
        path: str,
        method: ServiceMethod[M, B],
        asked: type[M],
        summary: str,
        description: str,
        model: type[B],
        *usual: int,
        errors: Mapping[int, str] | None = None,
    ) -> Operation:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._service.require_open()
            body = validated_body(asked, await read_json(request, limit=BODY_LIMIT, exact=True))
            answer = await self._service.answer(method, body, caller_ip(request, self._settings))
            return json_response(answer, cache_control=NO_STORE)

        answers = _answers("Done, or simulated.", model, 400, 409, 413, 415, 429, 503, *usual, errors=errors)
        return Operation("POST", f"{BASE}{path}", handle, summary, answers, description=description, body=asked)


def _operations(rest: Rest, service: CupService, download: Download) -> tuple[Operation, ...]:
    return (
        rest.post(
            "/wallet",
            service.claim,
            requests.WalletRequest,
            "Claim 10,000 pUSDC, once",
            "A repeated claim returns `minted: false` and the current balance. No signature is needed. Limits: 500 "
            "wallets a day per address, 1,000 a day per network, 5,000 an hour in total.",
            bodies.ClaimBody,
        ),
        rest.get(
            "/wallet/{address}",
            service.wallet,
            partial(read_path, model=requests.WalletPath),
            "A wallet's balance and positions",
            bodies.WalletBody,
            path_parameters=requests.WalletPath,
            description="All amounts are 0 for a wallet that has never claimed.",
        ),
        rest.query(
            "/markets",
            service.markets,
            requests.MarketsQuery,
            "Open paper markets",
            bodies.MarketsBody,
            description="Earliest `deadlineAt` first: trading ends then, before the deciding reading is taken.",
        ),
        rest.get(
            "/markets/{slug}/quote",
            service.quote,
            read_quote,
            "Quote a stake",
            bodies.QuoteBody,
            {
                404: "`market_not_found`",
                409: f"`market_closed`; {_CLOSED}",
                422: "`invalid_side`, with `validSides`.",
            },
            path_parameters=requests.MarketPath,
            query=requests.QuoteQuery,
        ),
        rest.post(
            "/trade",
            service.trade,
            requests.TradeRequest,
            "Place or simulate a paper trade",
            "Each `tradeId` trades once: sending the request again returns the first receipt with `replay: true`.",
            bodies.TradeBody,
            401,
            402,
            404,
            errors={
                409: f"`market_closed`; `trade_conflict`: the tradeId belongs to another trade; {_CLOSED}",
                422: "`invalid_side` with `validSides`; `signature_required` with `expectedMessage`.",
                503: _HALTED,
            },
        ),
        rest.query(
            "/leaderboard",
            service.board,
            requests.BoardQuery,
            "Realized profit, ranked",
            bodies.BoardBody,
            description="For all time, or for the profit realized in one ISO week (UTC). On a tie the wallet that got "
            "there first ranks first.",
        ),
        rest.get("/getting-started", service.getting_started, lambda _: None, "Onboarding guide", bodies.GuideBody),
        rest.query(
            "/roulette",
            service.round,
            requests.RoundQuery,
            "The live roulette round",
            bodies.RouletteRoundBody,
            errors={503: "`no_round`: the first round has not opened; or `unavailable`."},
            cache="public, max-age=1",
            description="42 markets with their pools, the commitment, and past rounds with seed and beacon. The pools "
            "may be half a second old, but include all bets of the `wallet` in the query. Cached for a second.",
        ),
        rest.post(
            "/roulette/bet",
            service.bet,
            requests.BetRequest,
            "Place or simulate a roulette bet",
            "A wallet can bet once per round and key: sending the request again returns the first receipt with "
            "`replay: true`. The pools of a simulation may be half a second old, but include all bets of its "
            "`walletAddress`.",
            bodies.BetBody,
            401,
            402,
            errors={
                409: f"`round_closed`, with `roundNo`; `bet_conflict`; {_CLOSED}",
                422: "`invalid_bet_key` with `validKeys`; `stake_out_of_bounds` with `bounds`; `signature_required` "
                "with `expectedMessage`.",
                503: f"`no_round`: the first round has not opened; {_HALTED}",
            },
        ),
        rest.post(
            "/agent/enroll",
            service.enrol,
            requests.EnrolRequest,
            "Enroll an agent's wallet",
            "An enrolled wallet can trade while live trading is halted. Limits: 500 wallets a day per address, 1,000 "
            "per network.",
            bodies.EnrolBody,
            401,
            errors={403: "`house_fleet_wallet`"},
        ),
        Operation(
            "GET",
            f"{BASE}/export",
            download.get,
            "Ledger, rounds, trades, bets and boards as one file",
            {
                200: DocumentedAnswer("JSON Lines.", content_type="application/x-ndjson"),
                409: _answers.refusal(_CLOSED),
                429: _answers.refusal("`rate_limited`", 429),
                503: _answers.refusal("`busy`: too many exports are running; `unavailable`: the database is down."),
            },
            description="Everything needed to recompute balances, books, spins, payouts and boards. "
            "The last line gives the number of lines before it.",
        ),
    )


def read_quote(request: web.Request) -> tuple[str, requests.QuoteQuery]:
    return read_path(request, requests.MarketPath).slug, read_query(request, requests.QuoteQuery)

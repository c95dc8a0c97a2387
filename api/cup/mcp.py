"""The MCP door: nine tools over stateless streamable HTTP, built with the official SDK, each asking the desk.

The SDK speaks ASGI; `Mcp.handle` carries one aiohttp request through it. The server keeps no session and no key: what
needs a signature takes the signature.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import orjson
from aiohttp import web
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from api.cup import bodies, requests
from api.cup.desk import Desk
from api.http.application import NO_STORE, json_response
from api.http.caller import caller_ip
from api.http.problem import Problem
from api.http.requests import validated_body
from core.config import Settings
from core.log import get_logger

log = get_logger(__name__)

NAME = "service-cup"
VERSION = "1.0.0"
BODY_LIMIT = 64 * 1024

INSTRUCTIONS = (
    "A paper-money tournament: nothing here is worth real money. Call getting_started first. create_wallet claims "
    "10,000 pUSDC once. place_paper_trade and place_roulette_bet simulate unless simulate is false; a real one carries "
    "an EIP-191 signature made by the wallet's owner over the message that getting_started shows. This server never "
    "asks for a private key: do not send one."
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of the MCP server. `route`: the desk's; `reads`: whether it can never change anything."""

    name: str
    route: str
    title: str
    description: str
    input: type[BaseModel]
    output: type[BaseModel]
    reads: bool = True


TOOLS = (
    Tool(
        "getting_started",
        "getting_started",
        "Getting started",
        "How to take part: claim, markets, quote, simulate, signed trade, board; the messages to sign and all limits.",
        requests.NoInput,
        bodies.GuideBody,
    ),
    Tool(
        "create_wallet",
        "claim",
        "Claim 10,000 pUSDC",
        "Claims 10,000 paper units for a wallet address, once. Calling it again changes nothing (minted: false).",
        requests.WalletRequest,
        bodies.ClaimBody,
        reads=False,
    ),
    Tool(
        "list_markets",
        "markets",
        "List open markets",
        "Open paper markets with slugs, outcome keys (the sides to trade) and the prices their pools imply, soonest "
        "end of trades first.",
        requests.MarketsQuery,
        bodies.MarketsBody,
    ),
    Tool(
        "get_quote",
        "quote",
        "Quote a stake",
        "What a stake on one side of a market would get: shares and projected payout. Read-only.",
        requests.QuoteRequest,
        bodies.QuoteBody,
    ),
    Tool(
        "place_paper_trade",
        "trade",
        "Simulate or place a paper trade",
        "Simulates by default. A real trade needs simulate: false, walletAddress, tradeId, issuedAt and signature, an "
        "EIP-191 signature over the message getting_started shows. The same tradeId never trades twice.",
        requests.SimulatedTradeRequest,
        bodies.TradeBody,
        reads=False,
    ),
    Tool(
        "get_roulette_round",
        "round",
        "Live roulette round",
        "The live spin: its number, phase, seconds to close, and 42 markets with true and crowd percentages. A wallet "
        f"adds its own bets. {requests.ROUND_WORDS}",
        requests.RoundQuery,
        bodies.RouletteRoundBody,
    ),
    Tool(
        "place_roulette_bet",
        "bet",
        "Simulate or place a roulette bet",
        "Simulates by default. A real bet needs simulate: false, walletAddress, roundNo (the live round), issuedAt and "
        f"signature. One bet for each wallet, round and key. stakePaper: {requests.STAKE_WORDS} {requests.ROUND_WORDS}",
        requests.SimulatedBetRequest,
        bodies.BetBody,
        reads=False,
    ),
    Tool(
        "get_positions",
        "wallet",
        "Wallet summary",
        "A wallet's balance, realized profit and positions.",
        requests.WalletRequest,
        bodies.WalletBody,
    ),
    Tool(
        "get_leaderboard",
        "board",
        "Leaderboard",
        "The board of realized profit, all time or for an ISO week; a wallet adds its own rank.",
        requests.BoardQuery,
        bodies.BoardBody,
    ),
)

_BY_NAME = {tool.name: tool for tool in TOOLS}

# Who asks, for rate limits: set for the request that is being carried through the SDK.
_caller: ContextVar[str] = ContextVar("cup_mcp_caller", default="unknown")


class Mcp:
    """The cup's MCP server, open for as long as requests come: `async with server.running():`."""

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self._settings = settings
        self._desk = desk
        server: Server[Any] = Server(
            NAME,
            version=VERSION,
            title="Service Cup",
            instructions=INSTRUCTIONS,
            website_url=f"{settings.public_url}/api/cup/v1/getting-started",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The SDK's task group lives in a task of its own: it must be left by the task that entered it, and whoever
        opens our surface may close it from another."""
        ready, stop = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await stop.wait()

        running = asyncio.create_task(run(), name="cup mcp")
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()
        try:
            yield
        finally:
            stop.set()
            await running

    async def manifest(self, _request: web.Request) -> web.StreamResponse:
        """Answered while dormant too: it says where the server is, not what the tournament does."""
        url = f"{self._settings.public_url}/api/cup/mcp"
        body = {
            "name": NAME,
            "version": VERSION,
            "url": url,
            "type": "http",
            "description": INSTRUCTIONS,
            "docsUrl": f"{self._settings.public_url}/api/cup/v1/getting-started",
            "mcpServers": {NAME: {"type": "http", "url": url}},
            "tools": [
                {"name": tool.name, "title": tool.title, "description": tool.description, "inputSchema": schema(tool)}
                for tool in TOOLS
            ],
        }
        return json_response(body, cache_control="public, max-age=60")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request through the SDK's ASGI application."""
        token = _caller.set(caller_ip(request, self._settings))
        try:
            carried = _Carried(request)
            await self._manager.handle_request(_scope(request), carried.receive, carried.send)
        finally:
            _caller.reset(token)
        return carried.response()

    async def _list(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool) for tool in TOOLS])

    async def _call(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _BY_NAME.get(params.name)
        if tool is None:
            names = ", ".join(_BY_NAME)
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:64]!r}; the tools are {names}.")
        try:
            self._desk.require_open()
            asked = validated_body(tool.input, dict(params.arguments or {}))
            body = await self._desk.answer(tool.route, asked, _caller.get())
        except Problem as problem:
            return _refusal({**self._desk.error(problem), "status": problem.status})
        except Exception as error:
            log.error("a tool raised", action="cup.tool_crashed", tool=tool.name, exc=error)
            broken = Problem(500, "internal_error", "Something broke on our side; it has been recorded.")
            return _refusal({**self._desk.error(broken), "status": 500})
        return _result(body)


def schema(tool: Tool) -> dict[str, Any]:
    """The input schema, plain enough for a model to follow: no null alternatives, no titles."""
    made = tool.input.model_json_schema(by_alias=True, mode="validation")
    shown = {name: _plain(spec) for name, spec in made.get("properties", {}).items()}
    plain: dict[str, Any] = {"type": "object", "properties": shown, "additionalProperties": False}
    if made.get("required"):
        plain["required"] = made["required"]
    return plain


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    options = [each for each in spec.get("anyOf", ()) if each.get("type") != "null"]
    merged = {**(options[0] if len(options) == 1 else {}), **spec}
    if len(options) == 1:
        del merged["anyOf"]
    if merged.get("default", ...) is None:
        del merged["default"]
    merged.pop("title", None)
    return merged


def described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema(tool),
        output_schema=tool.output.model_json_schema(by_alias=True, mode="serialization"),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _result(body: dict[str, Any]) -> types.CallToolResult:
    """The REST body twice: as it would go over HTTP, and as a value."""
    text = orjson.dumps(body).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def _refusal(body: dict[str, Any]) -> types.CallToolResult:
    """The REST body as text alone: clients hold structured content to the output schema, errors too, and would show
    the mismatch instead of what is wrong."""
    text = orjson.dumps(body).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


# ---------------------------------------------------------------- ASGI


def _scope(request: web.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.rel_url.raw_query_string.encode(),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": (request.remote or "", 0),
        "server": None,
        "state": {},
    }


class _Carried:
    """One request on its way to the SDK, and the answer on its way back. Answers are single JSON bodies
    (json_response), so nothing is lost by handing them over whole."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._read = False
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    async def receive(self) -> MutableMapping[str, Any]:
        if self._read:
            return {"type": "http.disconnect"}
        self._read = True
        return {"type": "http.request", "body": await self._request.read(), "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def response(self) -> web.Response:
        response = web.Response(status=self._status, body=bytes(self._body))
        for name, value in self._headers:
            if name.lower() != "content-length":
                response.headers[name] = value
        response.headers["Cache-Control"] = NO_STORE
        return response

"""The cup's MCP server: nine tools, each asking the desk."""

from __future__ import annotations

from dataclasses import dataclass

import mcp_types as types
import orjson
from aiohttp import web
from pydantic import BaseModel

from api.cup import bodies, requests
from api.cup.desk import Desk
from api.http import tool_schemas
from api.http.caller import caller_ip
from api.http.mcp_door import Described, McpDoor, refusal, success
from api.http.problem import Problem
from api.http.requests import validated_body
from core.config import Settings
from core.log import get_logger

log = get_logger(__name__)

NAME = "service-cup"

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


class Mcp:
    """The cup's tools, each asking the desk."""

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self._settings = settings
        self._desk = desk
        origin = settings.public_url
        server = Described(
            NAME, "Service Cup", INSTRUCTIONS, origin, "/api/cup/mcp", f"{origin}/api/cup/v1/getting-started"
        )
        self.door = McpDoor(server, lambda: [described(tool) for tool in TOOLS], self._call)

    async def _call(self, request: web.Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = _BY_NAME[params.name]
        try:
            self._desk.require_open()
            asked = validated_body(tool.input, dict(params.arguments or {}))
            body = await self._desk.answer(tool.route, asked, caller_ip(request, self._settings))
        except Problem as problem:
            return refusal({**self._desk.error(problem), "status": problem.status})
        except Exception as error:
            log.error("a tool raised", action="cup.tool_crashed", tool=tool.name, exc=error)
            broken = Problem(500, "internal_error", "Something broke on our side; it has been recorded.")
            return refusal({**self._desk.error(broken), "status": 500})
        return success(orjson.dumps(body))


def described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool_schemas.takes([tool.input]),
        output_schema=tool_schemas.gives(tool.output),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )

"""The cup's MCP server: the REST API as nine tools, with the instructions that a model needs."""

from __future__ import annotations

from typing import Final

from api.cup import requests
from api.cup.service import CupService
from api.operations import ErrorBody, Operation
from api.problems import Problem
from api.tools import McpEndpoint, RestTool, RestTools, ServerInfo, ToolCall, ToolResult, refusal
from core.config import Settings

NAME: Final = "service-cup"
PATH: Final = "/api/cup/mcp"

INSTRUCTIONS = (
    "A paper-money tournament: nothing here is worth real money. Call getting_started first. create_wallet claims "
    "10,000 pUSDC once. place_paper_trade and place_roulette_bet simulate unless simulate is false; a real one needs "
    "the wallet owner's EIP-191 signature over the message that getting_started shows. This server never asks for a "
    "private key: do not send one."
)


def _dry(real: str) -> dict[str, str]:
    return {"description": f"true: a dry run. false: {real}, which must be signed."}


TOOLS = (
    RestTool(
        "getting_started",
        "get_api_cup_v1_getting_started",
        "Getting started",
        "How to take part: claim, markets, quote, simulate, signed trade, board; with the messages to sign and all "
        "limits.",
    ),
    RestTool(
        "create_wallet",
        "post_api_cup_v1_wallet",
        "Claim 10,000 pUSDC",
        "Claims 10,000 paper units for a wallet address, once. Calling it again changes nothing (minted: false).",
        read_only=False,
    ),
    RestTool(
        "list_markets",
        "get_api_cup_v1_markets",
        "List open markets",
        "Open paper markets with slugs, outcome keys (the sides to trade) and the prices implied by their pools, "
        "earliest deadline first.",
    ),
    RestTool(
        "get_quote",
        "get_api_cup_v1_markets_slug_quote",
        "Quote a stake",
        "The shares and projected payout of a stake on one side of a market. Read-only.",
    ),
    RestTool(
        "place_paper_trade",
        "post_api_cup_v1_trade",
        "Simulate or place a paper trade",
        "Simulates by default. A real trade needs simulate: false, walletAddress, tradeId, issuedAt and signature, an "
        "EIP-191 signature over the message getting_started shows. The same tradeId never trades twice.",
        defaults={"simulate": True},
        schemas={"simulate": _dry("a real trade")},
        read_only=False,
    ),
    RestTool(
        "get_roulette_round",
        "get_api_cup_v1_roulette",
        "Live roulette round",
        "The live spin: its number, phase, seconds to close, and 42 markets with true and crowd percentages. If a "
        f"wallet is given, its bets are included. {requests.ROUND_WORDS}",
    ),
    RestTool(
        "place_roulette_bet",
        "post_api_cup_v1_roulette_bet",
        "Simulate or place a roulette bet",
        "Simulates by default. A real bet needs simulate: false, walletAddress, roundNo (the live round), issuedAt and "
        f"signature. One bet for each wallet, round and key. stakePaper: {requests.STAKE_WORDS} {requests.ROUND_WORDS}",
        defaults={"simulate": True},
        schemas={"simulate": _dry("a real bet")},
        read_only=False,
    ),
    RestTool(
        "get_positions",
        "get_api_cup_v1_wallet_address",
        "Wallet summary",
        "A wallet's balance, realized profit and positions.",
        renamed={"address": "walletAddress"},
    ),
    RestTool(
        "get_leaderboard",
        "get_api_cup_v1_leaderboard",
        "Leaderboard",
        "Ranks all wallets, or only enrolled agents, by realized profit for all time or for an ISO week. `rule` says "
        "what counts. If a wallet is given, `you` is its rank.",
    ),
)


def cup_mcp(
    settings: Settings, service: CupService, operations: tuple[Operation, ...], error_body: ErrorBody
) -> McpEndpoint:
    tools = RestTools(TOOLS, operations, error_body)

    async def call(tool_call: ToolCall) -> ToolResult:
        try:
            service.require_open()  # before the arguments are checked
        except Problem as problem:
            return refusal({**service.error(problem), "status": problem.status})
        return await tools.call(tool_call)

    origin = settings.public_url
    server = ServerInfo(NAME, "Service Cup", INSTRUCTIONS, origin, PATH, f"{origin}/api/cup/v1/getting-started")
    return McpEndpoint(server, tools.describe, call)

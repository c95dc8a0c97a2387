"""The stock markets' MCP server: the REST API as tools, with what a model must know to use them.

It is a separate server, not more tools on the agents' one: other units (integers as text, not dollars), another way to
pay (a signed bet, not x402), another chain. A model that sees one of them cannot take the numbers of the other.
"""

from __future__ import annotations

from typing import Final

from api.operations import Operation, default_error_body
from api.tools import McpEndpoint, RestTool, RestTools, ServerInfo
from core.config import Settings

NAME: Final = "service-stock"
PATH: Final = "/api/stock/mcp"

INSTRUCTIONS = """\
Markets on whether a stock's oracle reading finishes UP or DOWN between a strike time and a final time, in real USDG.
A bet is one signature of the bettor's wallet: no ether, no account. This server never asks for a private key or a seed
phrase: send none.

To play: list_markets (acceptingBets is true where bets are taken); get_market; prepare_bet; have the wallet sign its
typed data (domain, types, primaryType, message; eth_signTypedData_v4); place_bet with the fields of `request` as they
stand and the signature. Then check_bet and get_positions. What a position is owed is sent to its owner by itself.

Units: amounts are USDG in its smallest unit, as text: "5000000" is 5 USDG. A bet is 1 to 100 USDG ("1000000" to
"100000000"), or what the market's limits allow if that is less. Prices are oracle answers with 8 decimals, as text.
Times are Unix seconds, as numbers. outcome 0 is UP, 1 is DOWN.

Of an amount the market may accept less than all (headroom says how much): a position's `refused` is given back.

A stake is paid only by what the other side bets after it. prepare_bet's quote says what the bet is likely paid if right
(likelyPayout) and how likely its side must be for it to break even (breakEvenPct), and on what that rests.

Phases: opens (before strikeTime) and live (until finalTime) take bets; frozen waits for the settlement; then resolved,
or void with every stake given back. What a position is paid if its side wins (accrued) only rises while bets are taken.

A signature books one bet, once. After `pending`, busy, relay_failed or no answer at all, call place_bet or check_bet
with the very same arguments: nothing is bet twice. A new salt is a new bet.

Errors are text: JSON with error (a code), message and status; retryAfter says how many seconds to wait, escapeKit is
the same bet as a contract call that anybody may send."""

TOOLS = (
    RestTool(
        "list_markets",
        "get_api_markets",
        "List markets",
        "Markets, newest first, settled ones too: question, phase, times, strike and live price, pools of both sides, "
        "limits, and acceptingBets. Pass nextBefore as before for older ones.",
        defaults={"limit": 20},
    ),
    RestTool(
        "get_market",
        "get_api_markets_id",
        "One market",
        "One market with its rules, its book, every position in it, and once it is over how it was resolved.",
        renamed={"id": "marketId"},
    ),
    RestTool(
        "get_prices",
        "get_api_prices",
        "Latest prices",
        "The latest oracle reading of every stock, with 8 decimals as text.",
    ),
    RestTool(
        "prepare_bet",
        "get_api_relay_typed_data",
        "A bet ready to sign",
        "What the wallet signs for a bet (EIP-712: domain, types, primaryType, message), and `request`: the arguments "
        "of place_bet but for the signature. Nothing is bet yet. It may be entered for validSeconds, 600 unless told "
        "otherwise.",
        required=("from",),
        schemas={"from": {"description": "The wallet that signs and bets: 0x and 40 hexadecimal digits, in any case."}},
    ),
    RestTool(
        "place_bet",
        "post_api_relay_enter",
        "Place a signed bet with real money",
        "Sends a signed bet to the chain: real USDG, and it cannot be taken back. Arguments: the fields of "
        "prepare_bet's `request` as they stand, and signature. Answers within about 10 seconds: confirmed with "
        "positionId, reverted, or pending; what was refused with final: false may still be taken. 10 a minute.",
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "check_bet",
        "post_api_relay_enter",
        "What became of a signed bet",
        "The very arguments of place_bet again: answers with the first transaction and never bets twice. Once a bet "
        "was answered as confirmed, the error already_used has receipt, txHash and positionId. A bet that never "
        "arrived is placed now.",
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "get_positions",
        "get_api_positions",
        "An address's positions",
        "An address's positions across markets, newest first: side, accepted and refused amounts, what it is paid if "
        "its side wins now (accrued), payout once settled; and the totals of all. 30 a minute.",
        defaults={"limit": 50},
    ),
)


def stock_mcp(settings: Settings, operations: tuple[Operation, ...]) -> McpEndpoint:
    """`region_header` goes along: where bets are not offered, they are not by tools either."""
    tools = RestTools(TOOLS, operations, default_error_body, forwarded=(settings.region_header,))
    origin = settings.public_url
    server = ServerInfo(NAME, "Stock markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
    return McpEndpoint(server, tools.describe, tools.call)

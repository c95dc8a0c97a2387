"""The stock markets' MCP server: the REST API as tools, with the instructions that a model needs.

It is separate from the agent markets' server, because the two differ in units (integers as text, not dollars), in
payment (a signed bet, not x402) and in the chain. A model that sees only one of the servers cannot confuse their
numbers.
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
A bet takes one signature of the bettor's wallet: no ether, no account. This server never asks for a private key or a
seed phrase: do not send one.

To bet: list_markets (acceptingBets is true where bets are accepted); get_market; prepare_bet; have the wallet sign its
typed data (domain, types, primaryType, message; eth_signTypedData_v4); place_bet with the unchanged fields of `request`
and the signature. Then check_bet and get_positions. Payouts are sent to the positions' owners automatically.

Units: amounts are USDG in its smallest unit, as text: "5000000" is 5 USDG. A bet is 1 to 100 USDG ("1000000" to
"100000000"), or what the market's limits allow if that is less. Prices are oracle answers with 8 decimals, as text.
Times are Unix seconds, as numbers. outcome 0 is UP, 1 is DOWN.

The market may accept only part of an amount (headroom is the limit): the rest, a position's `refused`, is returned.

A stake profits only from bets made on the other side after it. prepare_bet's quote has the likely payout if the bet is
right (likelyPayout), the chance of winning it needs to break even (breakEvenPct), and the basis of the estimate.

Phases: opens (before strikeTime) and live (until finalTime) accept bets; frozen waits for settlement; then resolved, or
void with every stake returned. A position's payout if its side wins (accrued) only rises while bets are accepted.

A signature places one bet, once. After `pending`, busy, relay_failed or no response at all, call place_bet or check_bet
with exactly the same arguments: the bet is never placed twice. A new salt is a new bet.

Errors are text: JSON with error (a code), message and status; retryAfter is the number of seconds to wait, escapeKit is
the same bet as a contract call that anyone can send."""

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
        "One market with its rules, its book, every position in it, and its resolution once it is over.",
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
        "of place_bet except the signature. Nothing is bet yet. The bet is valid for validSeconds, 600 by default.",
        required=("from",),
        schemas={"from": {"description": "The wallet that signs and bets: 0x and 40 hexadecimal digits."}},
    ),
    RestTool(
        "place_bet",
        "post_api_relay_enter",
        "Place a signed bet with real money",
        "Sends a signed bet to the chain: real USDG, and it cannot be undone. Arguments: the unchanged fields of "
        "prepare_bet's `request`, and signature. Responds within about 10 seconds: confirmed with positionId, "
        "reverted, or pending; a bet refused with final: false may still be accepted. 10 a minute.",
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "check_bet",
        "post_api_relay_enter",
        "Check a signed bet",
        "Call it with exactly the arguments of place_bet: it returns the first transaction and never bets twice. "
        "For a bet that place_bet already reported as confirmed it returns the error already_used with receipt, txHash "
        "and positionId. A bet that never arrived is placed now.",
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "get_positions",
        "get_api_positions",
        "An address's positions",
        "An address's positions across markets, newest first: side, accepted and refused amounts, payout if its side "
        "wins now (accrued), payout once settled; and the totals of all. 30 a minute.",
        defaults={"limit": 50},
    ),
)


def stock_mcp(settings: Settings, operations: tuple[Operation, ...]) -> McpEndpoint:
    """Build the MCP server. Calls pass on the region header, so that tools are blocked in the same regions as bets."""
    tools = RestTools(TOOLS, operations, default_error_body, forwarded=(settings.region_header,))
    origin = settings.public_url
    server = ServerInfo(NAME, "Stock markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
    return McpEndpoint(server, tools.describe, tools.call)

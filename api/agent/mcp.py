"""The agents' MCP server: the REST API as tools. A call without a payment returns the payment terms. The next call
carries the payment in `_meta`, and its result carries the settlement there, as x402's MCP transport specifies."""

from __future__ import annotations

import base64
import json
from typing import Final

import orjson
from x402.mcp.constants import MCP_PAYMENT_META_KEY, MCP_PAYMENT_RESPONSE_META_KEY
from x402.schemas import PaymentRequired

from api.agent.trade import x402
from api.operations import ErrorBody, Json, Operation
from api.tools import (
    McpEndpoint,
    RestTool,
    RestTools,
    ServerInfo,
    ToolCall,
    ToolResult,
    any_of,
    result_of,
    without_titles,
)

NAME: Final = "service-agent"
PATH: Final = "/api/agent/mcp"
PAID: Final = "trade"

INSTRUCTIONS = """\
Prediction markets in real USDC on Base. The wallet that pays is the account: no key, no sign-up, no ether. This server
never asks for a private key or a seed phrase; do not send one.

To play: list_markets or discover_markets; research_market (its resolutionRules say what decides); get_quote;
simulate_trade; trade. Then get_positions, get_result, get_proof. Winners are paid automatically.

Units: amounts are USD with at most 6 decimals, and a bet is at least 1 USD. Prices are cents per share, 0 to 100; the
prices of all outcomes add up to 100. Winners split the pool less the fee (feeBps, 100 is 1%), so the payout of a share
changes until betting ends. projectedPayoutUsd is what a bet would be paid if its side won with the current book. A
right bet never gets less than its stake less the fee; a wrong one loses its whole stake. Read `warnings`.

Times are UTC. Betting ends at deadlineAt, to the second, before anything that decides is measured. A market's summary
says which readings decide; from settlesAfter on, it can be settled.

Paying: trade costs its sizeUsd. Called without a payment it moves nothing and returns x402's PaymentRequired
(version 2). Sign it, then call again with the same arguments and the payment in _meta["x402/payment"]; a client with
an x402 wallet does this automatically. The result is the receipt; the settlement is in _meta["x402/payment-response"].
Above 10 USD also pass quoteId and suggestedMinSharesOut (as minSharesOut) from a quote for the same market, side and
size, at most 60 seconds old.

If in doubt, for example after a timeout or internal_error, call trade again with the same arguments and the same
idemKey: you never pay twice. A new idemKey is a new bet.

Errors are text: JSON with error (a code), message, hint, retriable and status, and with retryAfter, the seconds to
wait, where that is known."""

# The REST API has a separate code for sizes above 0 and below 1.
SIZE = {"sizeUsd": {"minimum": 1, "examples": [5]}}

TOOLS = (
    RestTool(
        "discover_markets",
        "get_api_agent_v1_discover",
        "Find markets that match a text",
        "Open markets that match a question, a cashtag ($SYM) or a social post, best match first; with neither, the "
        "most active. If a post makes no claim that a market could settle, the result is silent: true with the reason.",
        defaults={"limit": 5},
    ),
    RestTool(
        "list_markets",
        "get_api_agent_v1_markets",
        "List markets",
        "Markets with their outcomes, odds and times, earliest deadline first; only open ones by default. Pass "
        "nextCursor as cursor for the next page.",
        defaults={"limit": 20},
    ),
    RestTool(
        "get_market",
        "get_api_agent_v1_markets_id",
        "One market",
        "One market: outcomes (`key` is the side to bet on, impliedPct its price), odds, fee, times and stakes so far. "
        "After it has ended, its result instead of odds.",
        renamed={"id": "marketId"},
    ),
    RestTool(
        "research_market",
        "get_api_agent_v1_markets_id_research",
        "Rules and research",
        "Everything known about a market: resolutionRules (exactly what is read, where and when), odds and their "
        "history, readings so far, price impact of several bet sizes, related markets.",
        renamed={"id": "marketId"},
    ),
    RestTool(
        "get_sentiment",
        "get_api_agent_v1_sentiment",
        "What bettors think of a token",
        "A score from 0 (bearish) to 100 (bullish) from the stakes in a token's open markets, with a confidence. "
        "Without markets it is 50 and hasSignal is false. Data only, no advice.",
    ),
    RestTool(
        "get_quote",
        "get_api_agent_v1_quote",
        "Price a bet",
        "What a bet would get now: shares, average price in cents, projected payout, warnings, and limits to pass to "
        "trade (suggestedMinSharesOut is 1% below the quote). Above 10 USD the price is locked for 60 seconds under "
        "quoteId. Free. 30 a minute.",
        required=("side", "sizeUsd"),
    ),
    RestTool(
        "check_wallet",
        "get_api_agent_v1_wallet_address_readiness",
        "Can this wallet bet?",
        "A wallet's USDC balance on Base, whether it covers the smallest bet (1 USD), and how to fund it.",
        renamed={"address": "wallet"},
    ),
    RestTool(
        "simulate_trade",
        "post_api_agent_v1_trade",
        "Rehearse a bet",
        "Runs the checks of trade and returns what the bet would get, without a payment: the receipt has simulated: "
        "true. Nothing is moved or written, and the wallet needs no money.",
        fixed={"simulate": True},
        schemas=SIZE,
    ),
    RestTool(
        "trade",
        "post_api_agent_v1_trade",
        "Place a bet with real money",
        "Stakes sizeUsd of real USDC on a side; a bet cannot be withdrawn. Without a payment it moves nothing and "
        'returns x402\'s PaymentRequired; with the signed payment in _meta["x402/payment"] it returns the '
        "receipt: tradeId, shares, txHash. The same idemKey with the same market, side and size never pays twice, so "
        "if in doubt call again with it. Above 10 USD pass quoteId and minSharesOut. 10 a minute per wallet.",
        fixed={"simulate": False},
        schemas=SIZE,
        read_only=False,
        destructive=True,
    ),
    RestTool(
        "get_positions",
        "get_api_agent_v1_positions",
        "A wallet's positions",
        "A wallet's bets, newest first: status (open, resolved-won, resolved-lost, resolved-refunded), stake, shares, "
        "current value, payoutUsd once settled; and the totals over all bets.",
        required=("wallet",),
        defaults={"limit": 50},
    ),
    RestTool(
        "get_result",
        "get_api_agent_v1_result",
        "How a market ended",
        "Whether a market is resolved or pending, the winning outcome, the deciding readings, and the transaction.",
    ),
    RestTool(
        "get_proof",
        "get_api_agent_v1_proof_tradeId",
        "Proof of a bet",
        "A settled bet on the chain: transaction, block, contract, and whether it is final.",
    ),
    RestTool(
        "get_events",
        "get_api_agent_v1_events_replay",
        "A wallet's events in order",
        "The events of a wallet's bets from fromSeq on: bet.placed, market.resolved, position.won, payout.paid and so "
        "on. Their numbers have no gaps. Pass nextSeq as fromSeq for more; if it is null, there are no more: continue "
        "later from lastSeq + 1.",
        required=("wallet",),
        defaults={"limit": 50},
    ),
    RestTool(
        "get_health",
        "get_api_agent_v1_health",
        "Are bets accepted now?",
        "Whether bets are accepted (ok), and if not, why; how many markets are open.",
    ),
)


class AgentMcp:
    def __init__(self, operations: tuple[Operation, ...], error_body: ErrorBody, *, origin: str) -> None:
        self._tools = RestTools(TOOLS, operations, error_body)
        server = ServerInfo(NAME, "Agent markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
        self.endpoint = McpEndpoint(server, self.describe, self._call)

    def describe(self) -> list[Json]:
        """Describe the tools. The output schema of `trade` allows both receipts and payment terms, because clients
        validate both against it."""
        terms = without_titles(PaymentRequired.model_json_schema(by_alias=True, mode="serialization"))
        return self._tools.describe(**{PAID: any_of(self._tools[PAID].output_schema(), terms)})

    async def _call(self, call: ToolCall) -> ToolResult:
        if call.name != PAID:
            return await self._tools.call(call)
        payment = call.meta.get(MCP_PAYMENT_META_KEY)
        # Clients send the payment as an object or as its text. The trade refuses anything else.
        text = payment if isinstance(payment, str) else json.dumps(payment)
        encoded = base64.b64encode(text.encode(errors="replace")).decode()
        headers = () if payment is None else ((x402.PAYMENT_HEADERS[0], encoded),)
        answered = await self._tools.answer(call, headers)
        if isinstance(answered, ToolResult):
            return answered
        if answered.status == 402:
            # As x402's MCP transport specifies: an error with the terms as structured content and as text.
            terms = base64.b64decode(answered.headers[x402.REQUIRED_HEADER])
            return ToolResult(terms.decode(), orjson.loads(terms), is_error=True)
        settled = answered.headers.get(x402.SETTLED_HEADER)
        if settled is None:
            return result_of(answered)
        return result_of(answered, {MCP_PAYMENT_RESPONSE_META_KEY: orjson.loads(base64.b64decode(settled))})

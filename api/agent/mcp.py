"""The agents' MCP server: the REST API as tools, with payments through x402's MCP transport.

A call without a payment returns the payment terms. The next call carries the payment in its `_meta`, and the answer to
it carries the settlement in its `_meta`. The REST API makes the trade; this module only converts formats.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import orjson
from x402.mcp.constants import MCP_PAYMENT_META_KEY, MCP_PAYMENT_RESPONSE_META_KEY
from x402.schemas import PaymentRequired

from api.agent.tools import INSTRUCTIONS, TOOLS
from api.agent.trade import x402
from api.operations import ErrorBody, Json, Operation
from api.tools import McpEndpoint, RestTools, ServerInfo, ToolCall, ToolResult, any_of, result_of, without_titles

NAME: Final = "service-agent"
PATH: Final = "/api/agent/mcp"
PAID: Final = "trade"


class AgentMcp:
    """The tools of the agent surface. Only `trade` needs a payment."""

    def __init__(self, operations: tuple[Operation, ...], error_body: ErrorBody, *, origin: str) -> None:
        self._tools = RestTools(TOOLS, operations, error_body)
        server = ServerInfo(NAME, "Agent markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
        self.endpoint = McpEndpoint(server, self.describe, self._call)

    def describe(self) -> list[Json]:
        """Return the descriptions of the tools. The schema of `trade` allows a receipt and payment terms, since clients
        check both against it."""
        terms = without_titles(PaymentRequired.model_json_schema(by_alias=True, mode="serialization"))
        return self._tools.describe(**{PAID: any_of(self._tools[PAID].output_schema(), terms)})

    async def _call(self, call: ToolCall) -> ToolResult:
        if call.name != PAID:
            return await self._tools.call(call)
        payment = call.meta.get(MCP_PAYMENT_META_KEY)
        headers = () if payment is None else ((x402.PAYMENT_HEADERS[0], _encode(payment)),)
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


def _encode(payment: Any) -> str:
    """Encode a payment for its header. Clients send the payment as an object or as the object's text. The trade refuses
    anything else when it reads the header."""
    text = payment if isinstance(payment, str) else json.dumps(payment)
    return base64.b64encode(text.encode(errors="replace")).decode()

"""The agents' MCP server: the REST API as tools, and x402's payments where its MCP transport has them.

What is asked for is in the result of a call without a payment; the payment comes in the `_meta` of the next, and what
became of it goes back there. In between is the trade of the REST API and nothing else: here forms are changed, alone.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import mcp_types as types
import orjson
from aiohttp import web
from x402.mcp.constants import MCP_PAYMENT_META_KEY, MCP_PAYMENT_RESPONSE_META_KEY
from x402.schemas import PaymentRequired

from api.agent.tools import INSTRUCTIONS, TOOLS
from api.agent.trade import x402
from api.http import tool_schemas
from api.http.mcp_door import Described, McpDoor
from api.http.operation import ErrorWording, Operation
from api.http.rest_tools import RestTools, result_of

NAME: Final = "service-agent"
PATH: Final = "/api/agent/mcp"
PAID: Final = "trade"


class AgentMcp:
    """The tools of the agent surface; `trade` is paid for."""

    def __init__(self, operations: tuple[Operation, ...], error_body: ErrorWording, *, origin: str) -> None:
        self._tools = RestTools(TOOLS, operations, error_body)
        server = Described(NAME, "Agent markets", INSTRUCTIONS, origin, PATH, f"{origin}/agents.txt")
        self.door = McpDoor(server, self.described, self._call)

    def described(self) -> list[types.Tool]:
        """Describe the tools. `trade` returns a receipt or a demand for payment; clients check either against this."""
        asked = tool_schemas.untitled(PaymentRequired.model_json_schema(by_alias=True, mode="serialization"))
        return self._tools.described(**{PAID: tool_schemas.gives_either(self._tools[PAID].gives(), asked)})

    async def _call(self, request: web.Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != PAID:
            return await self._tools.call(request, params)
        payment = (params.meta or {}).get(MCP_PAYMENT_META_KEY)
        headers = () if payment is None else ((x402.PAYMENT_HEADERS[0], _encoded(payment)),)
        answered = await self._tools.answer(request, PAID, params.arguments or {}, headers)
        if isinstance(answered, types.CallToolResult):
            return answered
        if answered.status == 402:
            return _asked(_decoded(answered.headers[x402.REQUIRED_HEADER]))
        settled = answered.headers.get(x402.SETTLED_HEADER)
        return result_of(
            answered, None if settled is None else {MCP_PAYMENT_RESPONSE_META_KEY: orjson.loads(_decoded(settled))}
        )


def _asked(required: bytes) -> types.CallToolResult:
    """Return the demand for payment as x402's MCP transport has it: an error with the terms as a value and as text."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=required.decode())],
        structured_content=orjson.loads(required),
        is_error=True,
    )


def _encoded(payment: Any) -> str:
    """Encode a payment for its header. Clients send an object, or its text; anything else is refused, with the reason,
    where the header is read."""
    text = payment if isinstance(payment, str) else json.dumps(payment)
    return base64.b64encode(text.encode(errors="replace")).decode()


def _decoded(header: str) -> bytes:
    return base64.b64decode(header)

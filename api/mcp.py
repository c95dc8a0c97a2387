"""An MCP server built with the official SDK, over stateless streamable HTTP. The SDK speaks ASGI, so `McpServer.answer`
passes each aiohttp request through it. Only `api.tools` imports this module, on the first call."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from aiohttp import web
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from api.caching import NO_STORE
from api.operations import Json
from api.tools import CallTool, ServerInfo, ToolCall


class McpServer:
    def __init__(self, info: ServerInfo, version: str, tools: Sequence[Json], call: CallTool, body_limit: int) -> None:
        self._tools = {tool["name"]: types.Tool.model_validate(tool) for tool in tools}
        self._call_tool = call
        # The HTTP request that is passing through the SDK.
        self._request: ContextVar[web.Request] = ContextVar(f"mcp {info.name}")
        server: Server[Any] = Server(
            info.name,
            version=version,
            title=info.title,
            instructions=info.instructions,
            website_url=info.docs_url,
            on_list_tools=self._list,
            on_call_tool=self._call,
            # Needed at each call; without it the SDK lists all tools to find one.
            get_tool_input_schema=lambda name: self._tools[name].input_schema if name in self._tools else None,
        )
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=body_limit
        )

    async def run(self, ready: asyncio.Event, stop: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await stop.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        token = self._request.set(request)
        try:
            exchange = _AsgiExchange(request)
            await self._manager.handle_request(exchange.scope(), exchange.receive, exchange.send)
        finally:
            self._request.reset(token)
        return exchange.response()

    async def _list(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self._tools.values()))

    async def _call(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in self._tools:
            names = ", ".join(self._tools)
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:64]!r}; the tools are {names}.")
        call = ToolCall(self._request.get(), params.name, params.arguments or {}, dict(params.meta or {}))
        result = await self._call_tool(call)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=result.structured,
            is_error=result.is_error,
            _meta=result.meta,
        )


class _AsgiExchange:
    """One request passed to the SDK, and the SDK's response, which is a single JSON body."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._is_read = False
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        self._body = bytearray()

    def scope(self) -> dict[str, Any]:
        request = self._request
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

    async def receive(self) -> MutableMapping[str, Any]:
        if self._is_read:
            return {"type": "http.disconnect"}
        self._is_read = True
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

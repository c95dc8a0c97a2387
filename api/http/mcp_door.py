"""MCP servers over stateless streamable HTTP, by the official SDK. A surface supplies the tools and answers calls.

The SDK speaks ASGI; `McpDoor.handle` passes one aiohttp request through it. The server keeps no session and no key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types as types
import orjson
from aiohttp import web
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from api.cache import TimedValue
from api.http.application import json_response
from api.http.operation import Cors, DocumentedAnswer, Operation
from api.http.problem import Problem
from api.http.rendered import NO_STORE
from api.http.requests import read_json
from core.money import to_json

BODY_LIMIT = 64 * 1024
VERSION = "1.0.0"

# Sent by MCP clients in a browser, in addition to Content-Type.
HEADERS = ("Accept", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name")
CORS = Cors(allow_headers=("Content-Type", "If-None-Match", *HEADERS))

ToolCall = Callable[[web.Request, types.CallToolRequestParams], Awaitable[types.CallToolResult]]


@dataclass(frozen=True, slots=True)
class Described:
    """A server's description of itself."""

    name: str
    title: str
    instructions: str
    origin: str
    path: str
    docs_url: str

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"


class McpDoor:
    """An MCP server; requests are served within `async with door.running():`. describe: builds its tools when first
    needed. call: answers a tool call that came with a request."""

    def __init__(self, described: Described, describe: Callable[[], Sequence[types.Tool]], call: ToolCall) -> None:
        self._described = described
        self._described_tools = TimedValue(partial(asyncio.to_thread, describe))
        self._tools: dict[str, types.Tool] = {}
        self._answer = call
        # The HTTP request that is passing through the SDK.
        self._carried: ContextVar[web.Request] = ContextVar(f"mcp {described.name}")
        server: Server[Any] = Server(
            described.name,
            version=VERSION,
            title=described.title,
            instructions=described.instructions,
            website_url=described.docs_url,
            on_list_tools=self._list,
            on_call_tool=self._call,
            # Needed at each call; without it the SDK lists all tools to find one.
            get_tool_input_schema=lambda name: self._tools[name].input_schema if name in self._tools else None,
        )
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=BODY_LIMIT
        )

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of the server and its manifest."""
        path = self._described.path
        return (
            Operation(
                "GET",
                f"{path}.json",
                self.manifest,
                "The MCP server's manifest",
                {200: DocumentedAnswer("Name, version, url and tools.")},
            ),
            Operation(
                "POST",
                path,
                self.handle,
                "MCP: stateless streamable HTTP",
                {200: DocumentedAnswer("JSON-RPC.")},
                hidden=True,
            ),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the SDK's task group in a separate task: the task that entered it must also leave it, and a surface
        may be opened and closed by different tasks."""
        ready, stop = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with self._manager.run():
                ready.set()
                await stop.wait()

        running = asyncio.create_task(run(), name=f"mcp {self._described.name}")
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
        """Return the server's URL and tools, in any state of its surface."""
        server = self._described
        body = {
            "name": server.name,
            "version": VERSION,
            "url": server.url,
            "type": "http",
            "description": server.instructions,
            "docsUrl": server.docs_url,
            "mcpServers": {server.name: {"type": "http", "url": server.url}},
            "tools": [
                {
                    "name": tool.name,
                    "title": tool.title,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    "outputSchema": tool.output_schema,
                }
                for tool in await self._described_tools.get()
            ],
        }
        return json_response(body, cache_control="public, max-age=60")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request through the SDK's ASGI application. First refuse what the SDK would read differently from
        the rest of the API: another content type, and repeated fields."""
        if request.method == "POST":
            try:
                await read_json(request, limit=BODY_LIMIT)
            except Problem as problem:
                return _refused(problem)
        self._tools = self._tools or {tool.name: tool for tool in await self._described_tools.get()}
        token = self._carried.set(request)
        try:
            carried = _Carried(request)
            await self._manager.handle_request(_scope(request), carried.receive, carried.send)
        finally:
            self._carried.reset(token)
        return carried.response()

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
        return await self._answer(self._carried.get(), params)


def success(body: bytes, *, meta: dict[str, Any] | None = None) -> types.CallToolResult:
    """Return a REST body as a result, both as text and as structured content."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=body.decode())],
        structured_content=orjson.loads(body),
        _meta=meta,
    )


def refusal(body: Mapping[str, Any]) -> types.CallToolResult:
    """Return a REST error as text alone: clients validate structured content against the output schema, even of errors,
    and would report the mismatch instead of the error."""
    text = to_json(body).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _refused(problem: Problem) -> web.StreamResponse:
    """Return the JSON-RPC error for an unreadable call, whose id is unknown."""
    unread = isinstance(problem.__cause__ or problem.__context__, orjson.JSONDecodeError)
    code = types.PARSE_ERROR if unread else types.INVALID_REQUEST
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": problem.message}}
    return json_response(body, status=problem.status, cache_control=NO_STORE)


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
    """One request passed to the SDK, and the answer that it returns. Answers are single JSON bodies (json_response),
    so they are collected whole."""

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

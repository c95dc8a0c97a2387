"""The cup's MCP server: the REST API as nine tools."""

from __future__ import annotations

from typing import Final

import mcp_types as types
from aiohttp import web

from api.cup.service import CupService
from api.cup.tools import INSTRUCTIONS, TOOLS
from api.http.mcp_door import Described, McpDoor, refusal
from api.http.operation import ErrorWording, Operation
from api.http.problem import Problem
from api.http.rest_tools import RestTools
from core.config import Settings

NAME: Final = "service-cup"
PATH: Final = "/api/cup/mcp"


def cup_mcp(
    settings: Settings, service: CupService, operations: tuple[Operation, ...], error_body: ErrorWording
) -> McpDoor:
    tools = RestTools(TOOLS, operations, error_body)

    async def call(request: web.Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            service.require_open()  # before anything is said of the arguments, too
        except Problem as problem:
            return refusal({**service.error(problem), "status": problem.status})
        return await tools.call(request, params)

    origin = settings.public_url
    server = Described(NAME, "Service Cup", INSTRUCTIONS, origin, PATH, f"{origin}/api/cup/v1/getting-started")
    return McpDoor(server, tools.described, call)
